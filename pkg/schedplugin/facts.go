package schedplugin

import (
	"strconv"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// annSelectedNode is what VolumeBinding writes on a claim once it has chosen a node.
const annSelectedNode = "volume.kubernetes.io/selected-node"

// key identifies a volume for as long as it exists.
type key string

func claimKey(uid types.UID) key { return key("claim/" + uid) }

func inlineKey(pod types.UID, volume string) key { return key("inline/" + string(pod) + "/" + volume) }

// unclaimedKey is for a PersistentVolume that is bound to no claim.
func unclaimedKey(name string) key { return key("volume/" + name) }

// claimFact is what a PersistentVolumeClaim says.
type claimFact struct {
	uid          types.UID
	class        string
	volumeName   string
	selectedNode string
	lost         bool
	block        bool
	// ephemeral: a pod owns the claim, and it goes with the pod.
	ephemeral bool
	// requestedBytes is the largest of what the claim asks for and what an
	// expansion has been admitted for.
	requestedBytes int64
}

func newClaimFact(c *v1.PersistentVolumeClaim) claimFact {
	f := claimFact{
		uid:          c.UID,
		volumeName:   c.Spec.VolumeName,
		selectedNode: c.Annotations[annSelectedNode],
		lost:         c.Status.Phase == v1.ClaimLost,
		ephemeral:    ownedByPod(c),
		block:        c.Spec.VolumeMode != nil && *c.Spec.VolumeMode == v1.PersistentVolumeBlock,
	}
	if c.Spec.StorageClassName != nil {
		f.class = *c.Spec.StorageClassName
	}
	f.requestedBytes = requestedBytes(c)
	return f
}

// ownedByPod tells a generic ephemeral volume's claim (KEP-1698).
func ownedByPod(c *v1.PersistentVolumeClaim) bool {
	owner := metav1.GetControllerOf(c)
	return owner != nil && owner.Kind == "Pod"
}

// requestedBytes counts a growth as soon as the claim asks for it, and for as
// long as the resizer may be at it although the claim asks for less again
// (KEP-1790: status.allocatedResources is what is being tried).
func requestedBytes(c *v1.PersistentVolumeClaim) int64 {
	requested := c.Spec.Resources.Requests[v1.ResourceStorage]
	allocated := c.Status.AllocatedResources[v1.ResourceStorage]
	return max(requested.Value(), allocated.Value(), 0)
}

// volumeFact is what a PersistentVolume of this driver says.
type volumeFact struct {
	name string
	// claim is the UID of the claim it is bound to, or bound for; empty if none.
	claim types.UID
	// host is the node, by name or (A8) by its hostname label.
	host     string
	demand   demand
	readable bool // the attributes could be read, so demand is valid
	// offer is set for a volume that a claim could still be bound to.
	offer *offer
}

// offer is what VolumeBinding looks at when it matches a claim to a
// PersistentVolume that exists.
type offer struct {
	class       string
	block       bool
	bytes       int64
	accessModes []v1.PersistentVolumeAccessMode
	labels      map[string]string
}

func newVolumeFact(driver string, v *v1.PersistentVolume) (f volumeFact, ours bool) {
	source := v.Spec.CSI
	if source == nil || source.Driver != driver {
		return volumeFact{}, false
	}
	f = volumeFact{name: v.Name, host: volumeHost(driver, v)}
	if v.Spec.ClaimRef != nil {
		f.claim = v.Spec.ClaimRef.UID
	}
	size := v.Spec.Capacity[v1.ResourceStorage]
	d, err := volumeDemand(source.VolumeAttributes, size.Value())
	f.demand, f.readable = d, err == nil
	if v.Spec.ClaimRef == nil && v.DeletionTimestamp == nil && v.Status.Phase == v1.VolumeAvailable {
		f.offer = &offer{class: v.Spec.StorageClassName, bytes: size.Value(), accessModes: v.Spec.AccessModes, labels: v.Labels,
			block: v.Spec.VolumeMode != nil && *v.Spec.VolumeMode == v1.PersistentVolumeBlock}
	}
	return f, true
}

// volumeHost finds the node of a PersistentVolume: its required node affinity
// for this driver's topology key, else its label kubernetes.io/hostname.
func volumeHost(driver string, v *v1.PersistentVolume) string {
	if v.Spec.NodeAffinity != nil && v.Spec.NodeAffinity.Required != nil {
		for _, term := range v.Spec.NodeAffinity.Required.NodeSelectorTerms {
			for _, e := range term.MatchExpressions {
				if e.Key == capacity.TopologyKey(driver) && e.Operator == v1.NodeSelectorOpIn && len(e.Values) == 1 {
					return e.Values[0]
				}
			}
		}
	}
	return v.Labels[v1.LabelHostname]
}

// inlineFact is one inline volume of a pod that has a node.
type inlineFact struct {
	node     string
	demand   demand
	readable bool
}

// inlineVolumes are the pod's inline volumes of this driver, by key.
func inlineVolumes(driver string, pod *v1.Pod) map[key]inlineFact {
	var found map[key]inlineFact
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].CSI
		if source == nil || source.Driver != driver {
			continue
		}
		if found == nil {
			found = map[key]inlineFact{}
		}
		d, err := inlineDemand(source.VolumeAttributes)
		found[inlineKey(pod.UID, pod.Spec.Volumes[i].Name)] = inlineFact{node: pod.Spec.NodeName, demand: d, readable: err == nil}
	}
	return found
}

// finished tells that kubelet takes the pod's volumes away, whether or not the
// pod object stays.
func finished(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// classFact is a StorageClass.
type classFact struct {
	// ours: this driver is its provisioner. All else is set only then.
	ours   bool
	demand demand
	// err says why no volume can be made with the class.
	err error
	// immediate: the class does not wait for the scheduler.
	immediate bool
}

func newClassFact(driver string, c *storagev1.StorageClass) classFact {
	if c.Provisioner != driver {
		return classFact{}
	}
	d, err := classDemand(c.Parameters)
	return classFact{ours: true, demand: d, err: err,
		immediate: c.VolumeBindingMode == nil || *c.VolumeBindingMode == storagev1.VolumeBindingImmediate}
}

// nodeFact is what a Node says of its pools.
type nodeFact struct {
	hostname string
	// published tells that the annotation is there.
	published bool
	// allocatable are the pools' bytes; bad are the pools whose figure cannot
	// be read, and err is set if nothing of the annotation can.
	allocatable map[string]int64
	bad         map[string]error
	err         error
	// extentSizes are the pools' extents in bytes, where the node says so.
	extentSizes map[string]int64
}

func newNodeFact(driver string, n *v1.Node) nodeFact {
	f := nodeFact{hostname: n.Labels[v1.LabelHostname]}
	value, ok := n.Annotations[capacity.PoolsAnnotation(driver)]
	if !ok {
		return f
	}
	f.published = true
	f.allocatable, f.bad, f.err = capacity.DecodePools(value)
	return f
}

// attachable is the volume count that the node's CSINode gives the driver.
type attachable struct {
	registered bool
	// count is the most volumes, -1 if there is no limit.
	count int64
}

func newAttachable(driver string, n *storagev1.CSINode) attachable {
	for i := range n.Spec.Drivers {
		d := &n.Spec.Drivers[i]
		if d.Name != driver {
			continue
		}
		if d.Allocatable == nil || d.Allocatable.Count == nil {
			return attachable{registered: true, count: -1}
		}
		return attachable{registered: true, count: int64(*d.Allocatable.Count)}
	}
	return attachable{}
}

// text is for logs.
func (a attachable) text() string {
	if !a.registered {
		return "not registered"
	}
	return strconv.FormatInt(a.count, 10)
}
