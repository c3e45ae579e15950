package doctor

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/inspect"
)

func nodeChecks() []Check {
	return []Check{
		{"node-not-ready", Warning, "its volumes cannot be reached; they are kept, whatever happens, until somebody deletes the Node", findNotReady},
		{"node-without-driver", Warning, "the scheduler still counts with what nobody corrects any more", findLeftBehind},
		{"node-unregistered", Error, "kubelet mounts no volume of the driver, and no pod with one is placed there", findUnregistered},
		{"node-slots", Error, "Kubernetes takes it for no limit, and may place more volumes than the node can hold", findSlots},
	}
}

func findNotReady(s *inspect.Snapshot) (found []Problem) {
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.HasPools && !n.Ready {
			found = append(found, Problem{
				Object: nodeObject(n.Name), Wrong: "it publishes pools, and has not been ready for " + duration.HumanDuration(s.TakenAt.Sub(n.ReadyChanged)),
				Command: describe("node", "", n.Name),
			})
		}
	}
	return found
}

// settled tells whether the DaemonSet has all the pods that it wants.
func settled(s *inspect.Snapshot) bool {
	d := s.Install.DaemonSet
	return d != nil && d.Status.ObservedGeneration == d.Generation && d.Status.CurrentNumberScheduled == d.Status.DesiredNumberScheduled
}

func findLeftBehind(s *inspect.Snapshot) (found []Problem) {
	if !settled(s) {
		return nil
	}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.HasPools && s.Install.PodOn(n.Name) == nil {
			found = append(found, Problem{
				Object: nodeObject(n.Name), Wrong: "it publishes pools, and the DaemonSet has no pod there",
				Command: unannotate(n.Name, capacity.PoolsAnnotation(s.Driver), capacity.ReportAnnotation(s.Driver)), Repairs: true,
			})
		}
	}
	return found
}

// driverRuns tells whether the driver's pod on the node is ready.
func driverRuns(s *inspect.Snapshot, n *inspect.Node) bool {
	p := s.Install.PodOn(n.Name)
	return n.Ready && p != nil && inspect.Ready(p)
}

func findUnregistered(s *inspect.Snapshot) (found []Problem) {
	for i := range s.Nodes {
		if n := &s.Nodes[i]; !n.Registered && driverRuns(s, n) {
			found = append(found, Problem{
				Object: nodeObject(n.Name), Wrong: "the driver runs there, and is not in the CSINode",
				Command: restartDriver(s, n.Name), Repairs: true,
			})
		}
	}
	return found
}

func findSlots(s *inspect.Snapshot) (found []Problem) {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if !n.Registered || n.Slots > 0 {
			continue
		}
		what := "no allocatable.count"
		if n.Slots == 0 {
			what = "allocatable.count 0"
		}
		found = append(found, Problem{
			Object: Object{Kind: "csinode", Name: n.Name}, Wrong: fmt.Sprintf("the driver's entry has %s", what),
			Command: restartDriver(s, n.Name), Repairs: s.Install.PodOn(n.Name) != nil,
		})
	}
	return found
}
