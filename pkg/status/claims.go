package status

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/doctor"
	"github.com/csi-local/csi-local/pkg/inspect"
)

// Claim is one that waits for a volume.
type Claim struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Class is its StorageClass, and Pool the pool of that, "" if it cannot be read.
	Class string `json:"class"`
	Pool  string `json:"pool"`
	// RequestedBytes is what it asks for.
	RequestedBytes int64     `json:"requestedBytes"`
	CreatedAt      time.Time `json:"createdAt"`
	// Reason says what it waits for.
	Reason string `json:"reason"`
}

func pendingClaims(s *inspect.Snapshot, findings []doctor.Finding) []Claim {
	wrong := map[doctor.Object]string{}
	for _, f := range findings {
		if _, told := wrong[f.Object]; !told {
			wrong[f.Object] = f.Wrong
		}
	}
	claims, pods := []Claim{}, s.PodsByClaim()
	for i := range s.Claims {
		c := &s.Claims[i]
		if c.Spec.VolumeName != "" || c.DeletionTimestamp != nil {
			continue
		}
		out := Claim{
			Namespace: c.Namespace, Name: c.Name, Class: storagehelpers.GetPersistentVolumeClaimClass(c),
			RequestedBytes: inspect.RequestedBytes(c), CreatedAt: c.CreationTimestamp.UTC(),
		}
		if class := s.Class(out.Class); class != nil {
			if p, err := capacity.ParseClassParameters(class.Parameters); err == nil {
				out.Pool = p.Pool
			}
		}
		out.Reason = wrong[doctor.Object{Kind: "persistentvolumeclaim", Namespace: c.Namespace, Name: c.Name}]
		if text := wrong[doctor.Object{Kind: "storageclass", Name: out.Class}]; out.Reason == "" && text != "" {
			out.Reason = "StorageClass " + out.Class + ": " + text
		}
		if out.Reason == "" {
			out.Reason = waitsFor(c, pods[c.Namespace+"/"+c.Name])
		}
		claims = append(claims, out)
	}
	return claims
}

// waitsFor is for a claim with which nothing is wrong.
func waitsFor(c *v1.PersistentVolumeClaim, pods []*v1.Pod) string {
	if node := c.Annotations[storagehelpers.AnnSelectedNode]; node != "" {
		return "node " + node + " is to make it"
	}
	if len(pods) == 0 {
		return "no pod uses it yet"
	}
	for _, pod := range pods {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == v1.PodScheduled && condition.Status == v1.ConditionFalse && condition.Message != "" {
				return "pod " + pod.Name + ": " + strings.Join(strings.Fields(condition.Message), " ")
			}
		}
	}
	return "pod " + pods[0].Name + " waits for the scheduler"
}
