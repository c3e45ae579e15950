package doctor

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/inspect"
)

func claimChecks() []Check {
	const never = "no volume is ever made for it, and its pods stay Pending"
	return []Check{
		{"claim-node-gone", Error, "only the provisioner on that node would make the volume", findSelectedGone},
		{"claim-lost", Error, "its pods cannot start: the PersistentVolume that it was bound to is gone", findLost},
		{"claim-access-mode", Error, never, findAccessModes},
		{"claim-selector", Error, never, findSelectors},
		{"claim-too-large", Error, never, findTooLarge},
		{"claim-not-deleted", Warning, "a claim goes, and its bytes with it, only when no pod uses it", findClaimsNotDeleted},
	}
}

// waiting are the claims that have no volume and want one of the driver's.
func waiting(s *inspect.Snapshot) (claims []*v1.PersistentVolumeClaim) {
	for i := range s.Claims {
		if c := &s.Claims[i]; c.Spec.VolumeName == "" && c.DeletionTimestamp == nil && c.Status.Phase != v1.ClaimLost {
			claims = append(claims, c)
		}
	}
	return claims
}

func findSelectedGone(s *inspect.Snapshot) (found []Problem) {
	hosts, volumes := s.Hosts(), s.VolumesByClaim()
	for _, c := range waiting(s) {
		node := c.Annotations[storagehelpers.AnnSelectedNode]
		if node == "" || hosts[node] != nil || len(volumes[string(c.UID)]) > 0 {
			continue
		}
		found = append(found, Problem{
			Object: claimObject(c), Wrong: fmt.Sprintf("the scheduler has chosen node %s for it, and there is no such Node", node),
			Command: fmt.Sprintf("kubectl annotate persistentvolumeclaim -n %s %s %s-", c.Namespace, c.Name, storagehelpers.AnnSelectedNode), Repairs: true,
		})
	}
	return found
}

func findLost(s *inspect.Snapshot) (found []Problem) {
	for i := range s.Claims {
		if c := &s.Claims[i]; c.Status.Phase == v1.ClaimLost && c.DeletionTimestamp == nil {
			found = append(found, Problem{
				Object: claimObject(c), Wrong: fmt.Sprintf("it is Lost: there is no PersistentVolume %s any more", c.Spec.VolumeName),
				Command: remove("persistentvolumeclaim", c.Namespace, c.Name), Repairs: true,
			})
		}
	}
	return found
}

func findAccessModes(s *inspect.Snapshot) (found []Problem) {
	for _, c := range waiting(s) {
		for _, mode := range c.Spec.AccessModes {
			if mode == v1.ReadWriteOnce || mode == v1.ReadWriteOncePod {
				continue
			}
			found = append(found, Problem{
				Object: claimObject(c), Wrong: fmt.Sprintf("it asks for %s, and a local volume is on one node", mode),
				Command: remake("persistentvolumeclaim", c.Namespace, c.Name, fmt.Sprintf("s/^  - %s$/  - %s/", mode, v1.ReadWriteOnce)), Repairs: true,
			})
		}
	}
	return found
}

func findSelectors(s *inspect.Snapshot) (found []Problem) {
	for _, c := range waiting(s) {
		if c.Spec.Selector == nil {
			continue
		}
		found = append(found, Problem{
			Object: claimObject(c), Wrong: "it has a selector, and volumes are only made for claims without one",
			// The lines from selector on that are indented more than it is.
			Command: remake("persistentvolumeclaim", c.Namespace, c.Name, "/^  selector: {}$/d", "/^  selector:$/,/^  [^ ]/{/^  selector:$/d;/^   /d;}"), Repairs: true,
		})
	}
	return found
}

// findTooLarge compares with what a pool may hold in total: a claim that fits into no
// empty pool never fits.
func findTooLarge(s *inspect.Snapshot) (found []Problem) {
	largest := map[string]int64{}
	for i := range s.Nodes {
		for pool, bytes := range s.Nodes[i].Pools {
			largest[pool] = max(largest[pool], bytes)
		}
	}
	for _, c := range waiting(s) {
		class := s.Class(storagehelpers.GetPersistentVolumeClaimClass(c))
		if class == nil {
			continue
		}
		parameters, err := capacity.ParseClassParameters(class.Parameters)
		most, published := largest[parameters.Pool]
		if bytes := inspect.RequestedBytes(c); err == nil && published && most > 0 && bytes > most {
			found = append(found, Problem{
				Object: claimObject(c),
				Wrong: fmt.Sprintf("it asks for %s, and the largest pool %s of all nodes may hold %s",
					capacity.FormatBytes(bytes), parameters.Pool, capacity.FormatBytes(most)),
				Command: remove("persistentvolumeclaim", c.Namespace, c.Name), Repairs: true,
			})
		}
	}
	return found
}

func findClaimsNotDeleted(s *inspect.Snapshot) (found []Problem) {
	users := s.PodsByClaim()
	for i := range s.Claims {
		c := &s.Claims[i]
		if c.DeletionTimestamp == nil || s.TakenAt.Sub(c.DeletionTimestamp.Time) < patience {
			continue
		}
		p := Problem{
			Object: claimObject(c), Command: describe("persistentvolumeclaim", c.Namespace, c.Name),
			Wrong: fmt.Sprintf("it was deleted %s ago%s", duration.HumanDuration(s.TakenAt.Sub(c.DeletionTimestamp.Time)), finalizers(c.Finalizers)),
		}
		var pods []string
		for _, pod := range users[c.Namespace+"/"+c.Name] {
			pods = append(pods, pod.Name)
		}
		if len(pods) > 0 {
			slices.Sort(pods)
			p.Wrong += "; pods that use it: " + strings.Join(pods, ", ")
			p.Command, p.Repairs = remove("pod", c.Namespace, strings.Join(pods, " ")), true
		}
		found = append(found, p)
	}
	return found
}
