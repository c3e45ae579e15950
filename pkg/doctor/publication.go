package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/inspect"
)

func publicationChecks() []Check {
	const counted = "the scheduler counts with these figures alone"
	return []Check{
		{"published-nothing", Error, "the scheduler places no pod with a volume on a node of which it knows nothing", findUnpublished},
		{"published-unreadable", Error, "the scheduler places no pod with a volume in a pool whose figure it cannot read", findUnreadable},
		{"published-by-others", Warning, counted + ", and the node raises none for a while after somebody else has changed one", findForeign},
		{"published-report", Warning, "nobody knows who has published the figures beside it, and extents are assumed to have 4 MiB", findReport},
		{"published-by-newer", Warning, "an older version does not overwrite what a newer one has published, so the figures stay as they are", findNewer},
		{"published-paused", Warning, counted + ", and they stay as they are, whatever happens to the disks", findPaused},
	}
}

func findUnpublished(s *inspect.Snapshot) (found []Problem) {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.HasPools || n.Paused || n.Unselected || !n.Registered || !driverRuns(s, n) || s.TakenAt.Sub(readySince(s, n)) < settleTime {
			continue
		}
		if s.Install.PoolsFileErr != nil || len(s.Install.PoolsFile.ForNode(n.Name)) == 0 {
			continue // it has no pools, or that is what is wrong
		}
		found = append(found, Problem{
			Object: nodeObject(n.Name), Wrong: "it has pools, and has no annotation " + capacity.PoolsAnnotation(s.Driver),
			Command: restartDriver(s, n.Name), Repairs: true,
		})
	}
	return found
}

// readySince is when the driver's pod on the node was made ready.
func readySince(s *inspect.Snapshot, n *inspect.Node) time.Time {
	return readyChanged(s.Install.PodOn(n.Name))
}

func findUnreadable(s *inspect.Snapshot) (found []Problem) {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		problems := []error{n.PoolsErr}
		for _, pool := range slices.Sorted(maps.Keys(n.BadPools)) {
			problems = append(problems, n.BadPools[pool])
		}
		var texts []string
		for _, err := range problems {
			if err != nil {
				texts = append(texts, oneLine(err))
			}
		}
		if len(texts) == 0 {
			continue
		}
		p := Problem{
			Object: nodeObject(n.Name), Wrong: fmt.Sprintf("annotation %s: %s", capacity.PoolsAnnotation(s.Driver), strings.Join(texts, "; ")),
			Command: unannotate(n.Name, capacity.PoolsAnnotation(s.Driver)), Repairs: true,
		}
		for pool := range n.BadPools {
			if len(n.BadPools) == 1 {
				p.Pool = pool // the others are well
			}
		}
		found = append(found, p)
	}
	return found
}

// readable tells whether nothing is wrong with the pools' annotation.
func readable(n *inspect.Node) bool { return n.HasPools && n.PoolsErr == nil && len(n.BadPools) == 0 }

func findForeign(s *inspect.Snapshot) (found []Problem) {
	for i := range s.Nodes {
		// The reporter's field manager is the driver's name.
		if n := &s.Nodes[i]; readable(n) && n.PoolsWriter != "" && n.PoolsWriter != s.Driver {
			found = append(found, Problem{
				Object: nodeObject(n.Name), Wrong: fmt.Sprintf("annotation %s was changed by %s, and not by the driver", capacity.PoolsAnnotation(s.Driver), n.PoolsWriter),
				Command: unannotate(n.Name, capacity.PoolsAnnotation(s.Driver)), Repairs: true,
			})
		}
	}
	return found
}

func findReport(s *inspect.Snapshot) (found []Problem) {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		key, wrong := capacity.ReportAnnotation(s.Driver), ""
		switch {
		case !readable(n):
		case !n.HasReport:
			wrong = fmt.Sprintf("it has pools, and no annotation %s", key)
		case n.ReportErr != nil:
			wrong = fmt.Sprintf("annotation %s: %s", key, oneLine(n.ReportErr))
		}
		if wrong != "" {
			found = append(found, Problem{Object: nodeObject(n.Name), Wrong: wrong, Command: unannotate(n.Name, capacity.PoolsAnnotation(s.Driver), key), Repairs: true})
		}
	}
	return found
}

func findNewer(s *inspect.Snapshot) (found []Problem) {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		p := s.Install.PodOn(n.Name)
		if !n.HasReport || n.ReportErr != nil || p == nil {
			continue
		}
		version := imageTag(&p.Spec, driverContainer)
		if n.Report.NewerThan(version) {
			found = append(found, Problem{
				Object: nodeObject(n.Name), Wrong: fmt.Sprintf("version %s has published its pools, and version %s runs there", n.Report.Writer, version),
				Command: unannotate(n.Name, capacity.ReportAnnotation(s.Driver)), Repairs: true,
			})
		}
	}
	return found
}

func findPaused(s *inspect.Snapshot) (found []Problem) {
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Paused {
			found = append(found, Problem{
				Object: nodeObject(n.Name), Wrong: "annotation " + capacity.PauseAnnotation(s.Driver) + " pins what it publishes",
				Command: unannotate(n.Name, capacity.PauseAnnotation(s.Driver)), Repairs: true,
			})
		}
	}
	return found
}
