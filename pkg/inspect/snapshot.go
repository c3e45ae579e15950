package inspect

import (
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// Snapshot is all that a cluster says of one driver, read within moments, though
// not at one moment. Each list is in the order of names. It is read by many and
// changed by nobody.
type Snapshot struct {
	// Driver is the CSI driver's name.
	Driver string
	// TakenAt is the API server's clock at the last answer.
	TakenAt time.Time
	// ServerVersion is that of the API server.
	ServerVersion string
	// Requests is how many it took.
	Requests int

	// CSIDriver is nil if there is none.
	CSIDriver *storagev1.CSIDriver
	// Classes are the StorageClasses of the driver.
	Classes []storagev1.StorageClass
	// Nodes are all nodes of the cluster.
	Nodes []Node
	// Volumes are the PersistentVolumes of the driver.
	Volumes []v1.PersistentVolume
	// Claims are those that have a volume of the driver, or want one.
	Claims []v1.PersistentVolumeClaim
	// Pods are those that use such claims, or have inline volumes of the driver, and
	// have not finished.
	Pods []v1.Pod
	// Attachments are the VolumeAttachments of the driver.
	Attachments []storagev1.VolumeAttachment
	// Events are what csi-local has said of Nodes, as long as the API server keeps that.
	Events []v1.Event

	Install Install
	// Policies and Bindings are those of csi-local's installations.
	Policies []admissionv1.ValidatingAdmissionPolicy
	Bindings []admissionv1.ValidatingAdmissionPolicyBinding
}

// Class returns the driver's class of that name, nil if there is none.
func (s *Snapshot) Class(name string) *storagev1.StorageClass {
	i := slices.IndexFunc(s.Classes, func(c storagev1.StorageClass) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Classes[i]
}

// Hosts are the nodes by all the names that a volume may have for them.
func (s *Snapshot) Hosts() map[string]*Node {
	hosts := map[string]*Node{}
	for i := range s.Nodes {
		for _, host := range s.Nodes[i].Hosts {
			hosts[host] = &s.Nodes[i]
		}
	}
	return hosts
}

// PoolNames are all pools that some node publishes, sorted, whether or not the
// figures can be read.
func (s *Snapshot) PoolNames() []string {
	var names []string
	for i := range s.Nodes {
		for pool := range s.Nodes[i].Pools {
			names = append(names, pool)
		}
		for pool := range s.Nodes[i].BadPools {
			names = append(names, pool)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// VolumesByClaim finds the driver's PersistentVolumes by the UID of the claim that
// they are bound to, or for.
func (s *Snapshot) VolumesByClaim() map[string][]*v1.PersistentVolume {
	found := map[string][]*v1.PersistentVolume{}
	for i := range s.Volumes {
		if ref := s.Volumes[i].Spec.ClaimRef; ref != nil && ref.UID != "" {
			found[string(ref.UID)] = append(found[string(ref.UID)], &s.Volumes[i])
		}
	}
	return found
}

// PodsByClaim finds the pods that use a claim, by the claim's namespace and name.
func (s *Snapshot) PodsByClaim() map[string][]*v1.Pod {
	found := map[string][]*v1.Pod{}
	for i := range s.Pods {
		for _, claim := range claimsOf(&s.Pods[i]) {
			found[claim] = append(found[claim], &s.Pods[i])
		}
	}
	return found
}

// claimsOf are the claims of a pod, as namespace/name.
func claimsOf(pod *v1.Pod) (claims []string) {
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			claims = append(claims, pod.Namespace+"/"+v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil: // the claim's name: KEP-1698
			claims = append(claims, pod.Namespace+"/"+pod.Name+"-"+v.Name)
		}
	}
	return claims
}

// Inline are the inline volumes of the driver in the pod.
func (s *Snapshot) Inline(pod *v1.Pod) (inline []*v1.Volume) {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.CSI != nil && v.CSI.Driver == s.Driver {
			inline = append(inline, v)
		}
	}
	return inline
}

// Host is the node of a volume of the driver, nil if there is no such node. name is
// what the volume calls it, "" if it names none.
func (s *Snapshot) Host(hosts map[string]*Node, v *v1.PersistentVolume) (node *Node, name string) {
	name, _ = capacity.VolumeHost(s.Driver, v)
	return hosts[name], name
}

// sort puts everything into the order of names, so that nothing depends on the order
// in which it was read.
func (s *Snapshot) sort() {
	slices.SortFunc(s.Classes, func(a, b storagev1.StorageClass) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Volumes, func(a, b v1.PersistentVolume) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Claims, func(a, b v1.PersistentVolumeClaim) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	slices.SortFunc(s.Pods, comparePods)
	slices.SortFunc(s.Install.Pods, comparePods)
	slices.SortFunc(s.Attachments, func(a, b storagev1.VolumeAttachment) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Events, func(a, b v1.Event) int {
		if c := EventTime(&a).Compare(EventTime(&b)); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	slices.SortFunc(s.Policies, func(a, b admissionv1.ValidatingAdmissionPolicy) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Bindings, func(a, b admissionv1.ValidatingAdmissionPolicyBinding) int { return strings.Compare(a.Name, b.Name) })
}

func comparePods(a, b v1.Pod) int {
	return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
}

// EventTime is when an event happened last.
func EventTime(e *v1.Event) time.Time {
	switch {
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	default:
		return e.CreationTimestamp.Time
	}
}
