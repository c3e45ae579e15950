package doctor

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/csi-local/csi-local/pkg/inspect"
)

func volumeChecks() []Check {
	return []Check{
		{"volume-node-gone", Error, "its disks are gone or out of reach; pods with its claim stay Pending for ever", findNodeGone},
		{"volume-without-node", Error, "nobody counts its bytes, and pods with it are placed where it is not", findNowhere},
		{"volume-failed", Error, "its bytes stay taken until somebody deletes it", findFailed},
		{"volume-not-deleted", Error, "its bytes stay taken until the driver on its node deletes it", findNotDeleted},
		{"volume-retained", Warning, "its bytes stay taken until somebody decides: bound again, it serves another claim with the data; deleted, it leaves an orphan", findRetained},
		{"volume-attachment", Warning, "the driver attaches nothing, so nobody removes it; it keeps its PersistentVolume from being deleted", findAttachments},
	}
}

// patience is how long a deletion may take before it is called stuck. A wipe takes
// longer on large volumes; what is said then is still true.
const patience = 10 * time.Minute

func findNodeGone(s *inspect.Snapshot) (found []Problem) {
	hosts := s.Hosts()
	for i := range s.Volumes {
		v := &s.Volumes[i]
		node, name := s.Host(hosts, v)
		if node != nil || name == "" {
			continue
		}
		p := Problem{Object: volumeObject(v), Wrong: fmt.Sprintf("it is on node %s, and there is no such Node", name), Repairs: true}
		if ref := v.Spec.ClaimRef; ref != nil && v.Status.Phase == v1.VolumeBound {
			p.Wrong += fmt.Sprintf("; claim %s/%s is bound to it", ref.Namespace, ref.Name)
			p.Command = remove("persistentvolumeclaim", ref.Namespace, ref.Name)
		} else {
			p.Command = remove("persistentvolume", "", v.Name)
		}
		found = append(found, p)
	}
	return found
}

func findNowhere(s *inspect.Snapshot) (found []Problem) {
	hosts := s.Hosts()
	for i := range s.Volumes {
		if _, name := s.Host(hosts, &s.Volumes[i]); name == "" {
			found = append(found, Problem{
				Object: volumeObject(&s.Volumes[i]), Wrong: "neither its node affinity nor its labels say on which node it is",
				Command: describe("persistentvolume", "", s.Volumes[i].Name),
			})
		}
	}
	return found
}

// present tells whether the volume's node is there; of others there is another finding.
func present(s *inspect.Snapshot, hosts map[string]*inspect.Node, v *v1.PersistentVolume) bool {
	node, _ := s.Host(hosts, v)
	return node != nil
}

func findFailed(s *inspect.Snapshot) (found []Problem) {
	hosts := s.Hosts()
	for i := range s.Volumes {
		if v := &s.Volumes[i]; v.Status.Phase == v1.VolumeFailed && present(s, hosts, v) {
			found = append(found, Problem{Object: volumeObject(v), Wrong: "it is Failed: " + oneLine(errorText(v.Status.Message)), Command: describe("persistentvolume", "", v.Name)})
		}
	}
	return found
}

// releasedFor is how long the volume has been Released, 0 if it is not.
func releasedFor(s *inspect.Snapshot, v *v1.PersistentVolume) time.Duration {
	if v.Status.Phase != v1.VolumeReleased || v.Status.LastPhaseTransitionTime == nil {
		return 0
	}
	return s.TakenAt.Sub(v.Status.LastPhaseTransitionTime.Time)
}

func findNotDeleted(s *inspect.Snapshot) (found []Problem) {
	hosts := s.Hosts()
	for i := range s.Volumes {
		v := &s.Volumes[i]
		waits := time.Duration(0)
		switch {
		case v.DeletionTimestamp != nil && v.Status.Phase != v1.VolumeBound:
			waits = s.TakenAt.Sub(v.DeletionTimestamp.Time)
		case v.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete:
			waits = releasedFor(s, v)
		}
		if waits < patience || !present(s, hosts, v) {
			continue
		}
		node, _ := s.Host(hosts, v)
		found = append(found, Problem{
			Object:  volumeObject(v),
			Wrong:   fmt.Sprintf("it should have been deleted %s ago%s", duration.HumanDuration(waits), finalizers(v.Finalizers)),
			Command: restartDriver(s, node.Name), Repairs: s.Install.PodOn(node.Name) != nil,
		})
	}
	return found
}

func finalizers(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; finalizers: " + strings.Join(names, ", ")
}

func findRetained(s *inspect.Snapshot) (found []Problem) {
	hosts := s.Hosts()
	for i := range s.Volumes {
		v := &s.Volumes[i]
		if v.Status.Phase != v1.VolumeReleased || v.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimRetain || v.DeletionTimestamp != nil || !present(s, hosts, v) {
			continue
		}
		found = append(found, Problem{
			Object: volumeObject(v), Wrong: "its claim is gone, and reclaim policy Retain keeps it",
			// It can be bound again then. Nothing is destroyed by that.
			Command: fmt.Sprintf(`kubectl patch persistentvolume %s --type=json -p '[{"op":"remove","path":"/spec/claimRef"}]'`, v.Name), Repairs: true,
		})
	}
	return found
}

func findAttachments(s *inspect.Snapshot) (found []Problem) {
	for i := range s.Attachments {
		a := &s.Attachments[i]
		found = append(found, Problem{
			Object: Object{Kind: "volumeattachment", Name: a.Name}, Wrong: "it attaches a volume of the driver to node " + a.Spec.NodeName,
			Command: remove("volumeattachment", "", a.Name), Repairs: true,
		})
	}
	return found
}
