package sanity

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/onsi/ginkgo/v2/types"
)

// ReadReport reads what the stock command writes with --ginkgo.json-report=PATH.
func ReadReport(path string) ([]Spec, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var reports []types.Report
	if err := json.Unmarshal(data, &reports); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var specs []Spec
	for _, report := range reports {
		specs = append(specs, specsOf(report, false)...)
	}
	return specs, nil
}

// specsOf turns a report into specs. With variants, the outermost container is the
// variant's name. Nodes that are no specs (setup of the suite) count only if they failed.
func specsOf(report types.Report, variants bool) []Spec {
	var specs []Spec
	for _, r := range report.SpecReports {
		spec := Spec{Message: r.Failure.Message, Took: r.RunTime}
		path := r.ContainerHierarchyTexts
		if variants && len(path) > 0 {
			spec.Variant, path = path[0], path[1:]
		}
		spec.Name = strings.TrimSpace(strings.Join(append(path[:len(path):len(path)], r.LeafNodeText), " "))
		switch {
		case r.State.Is(types.SpecStatePassed):
			spec.Outcome = Passed
		case r.State.Is(types.SpecStateSkipped):
			spec.Outcome = Skipped
		case r.State.Is(types.SpecStatePending):
			spec.Outcome = Pending
		default: // failed, panicked, interrupted, timed out: whatever else is no success
			spec.Outcome = Failed
			spec.Message = fmt.Sprintf("%s\n%s\n%s", r.Failure.Message, r.Failure.ForwardedPanic, r.Failure.Location.String())
			spec.Output = r.CapturedGinkgoWriterOutput
		}
		if r.LeafNodeType.Is(types.NodeTypeIt) || spec.Outcome == Failed {
			specs = append(specs, spec)
		}
	}
	return specs
}
