package sanity

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/ginkgo/v2/types"
)

func TestUnjustified(t *testing.T) {
	allowed := []Skip{{Message: "Snapshot not supported", Needs: "controller/CREATE_DELETE_SNAPSHOT"}}
	tests := []struct {
		name       string
		spec       Spec
		advertised Capabilities
		want       string // part of the line; empty for none
	}{
		{"not advertised", Spec{Outcome: Skipped, Message: "Snapshot not supported"}, Capabilities{}, ""},
		{"advertised", Spec{Outcome: Skipped, Message: "Snapshot not supported"}, Capabilities{"controller/CREATE_DELETE_SNAPSHOT": true}, "although the driver advertises"},
		{"reason unknown", Spec{Outcome: Skipped, Message: "NodeStageVolume not supported"}, Capabilities{}, "not in the list"},
		{"passed", Spec{Outcome: Passed}, Capabilities{}, ""},
		{"switched off upstream", Spec{Name: "ListVolumes " + pendingUpstream()[0], Outcome: Pending}, Capabilities{}, ""},
		{"switched off, unknown", Spec{Name: "Probe", Outcome: Pending}, Capabilities{}, "switched off"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Unjustified([]Spec{tt.spec}, allowed, tt.advertised)
			if (len(got) == 0) != (tt.want == "") || len(got) > 0 && !strings.Contains(got[0], tt.want) {
				t.Errorf("lines %q, want %q", got, tt.want)
			}
		})
	}
}

func TestReadReport(t *testing.T) {
	spec := func(state types.SpecState, leaf types.NodeType, text, message string) types.SpecReport {
		return types.SpecReport{
			ContainerHierarchyTexts: []string{"Node Service"}, LeafNodeType: leaf, LeafNodeText: text,
			State: state, Failure: types.Failure{Message: message},
		}
	}
	reports := []types.Report{{SpecReports: []types.SpecReport{
		spec(types.SpecStatePassed, types.NodeTypeIt, "should work", ""),
		spec(types.SpecStateSkipped, types.NodeTypeIt, "should stage", "NodeStageVolume not supported"),
		spec(types.SpecStatePanicked, types.NodeTypeIt, "should expand", "index out of range"),
		spec(types.SpecStatePending, types.NodeTypeIt, "should page", ""),
		spec(types.SpecStatePassed, types.NodeTypeBeforeSuite, "", ""),
		spec(types.SpecStateFailed, types.NodeTypeBeforeSuite, "", "no socket"),
	}}}
	data, err := json.Marshal(reports)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	specs, err := ReadReport(path)
	if err != nil {
		t.Fatal(err)
	}
	want := map[Outcome]int{Passed: 1, Skipped: 1, Failed: 2, Pending: 1}
	if diff := cmp.Diff(want, Count(specs)); diff != "" {
		t.Errorf("count (-want +got):\n%s", diff)
	}
	if got := specs[2]; got.Name != "Node Service should expand" || !strings.Contains(got.Message, "index out of range") {
		t.Errorf("failed spec is %+v", got)
	}
}
