package schedplugin

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// key identifies a volume for as long as it exists.
type key string

// claimKey is the UID itself, which is in memory anyway; there are many.
func claimKey(uid types.UID) key { return key(uid) }

func inlineKey(pod types.UID, volume string) key { return key("inline/" + string(pod) + "/" + volume) }

// unclaimedKey is for a PersistentVolume that is bound to no claim.
func unclaimedKey(name string) key { return key("volume/" + name) }

// claimFact is what a PersistentVolumeClaim says.
type claimFact struct {
	name types.NamespacedName
	// version is the object's resourceVersion. It is compared for equality only.
	version      string
	class        string
	volumeName   string
	selectedNode string
	lost         bool
	block        bool
	// ours: the persistent volume controller has asked this driver for the
	// volume; others: another one. It asks nobody before a node is selected.
	ours, others bool
	// ephemeral: a pod owns the claim, and it goes with the pod.
	ephemeral bool
	// requestedBytes is the largest of what the claim asks for and what an
	// expansion has been admitted for.
	requestedBytes int64
}

func newClaimFact(driver string, c *v1.PersistentVolumeClaim) claimFact {
	asked := c.Annotations[storagehelpers.AnnStorageProvisioner]
	if asked == "" {
		asked = c.Annotations[storagehelpers.AnnBetaStorageProvisioner]
	}
	return claimFact{
		name:           types.NamespacedName{Namespace: c.Namespace, Name: c.Name},
		version:        c.ResourceVersion,
		class:          storagehelpers.GetPersistentVolumeClaimClass(c),
		volumeName:     c.Spec.VolumeName,
		selectedNode:   c.Annotations[storagehelpers.AnnSelectedNode],
		lost:           c.Status.Phase == v1.ClaimLost,
		block:          c.Spec.VolumeMode != nil && *c.Spec.VolumeMode == v1.PersistentVolumeBlock,
		ours:           asked == driver,
		others:         asked != "" && asked != driver,
		ephemeral:      ownedByPod(c),
		requestedBytes: requestedBytes(c),
	}
}

// ownedByPod tells a generic ephemeral volume's claim (KEP-1698).
func ownedByPod(c *v1.PersistentVolumeClaim) bool {
	owner := metav1.GetControllerOfNoCopy(c)
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
	// host is the node, or (A8) the hostname label of the node.
	host       string
	byHostname bool
	// class is used where the volume itself does not tell its pool.
	class  string
	demand demand
	// released: the volume itself says that its claim is gone. It does not grow
	// any more.
	released bool
	// offer is the object of a volume that a claim could still be bound to.
	offer *v1.PersistentVolume
}

func isOurs(driver string, v *v1.PersistentVolume) bool {
	return v.Spec.CSI != nil && v.Spec.CSI.Driver == driver
}

// newVolumeFact reads a volume of the driver's.
func newVolumeFact(driver string, v *v1.PersistentVolume) volumeFact {
	size := v.Spec.Capacity[v1.ResourceStorage]
	f := volumeFact{name: v.Name, class: storagehelpers.GetPersistentVolumeClass(v), demand: volumeDemand(v.Spec.CSI.VolumeAttributes, size.Value()),
		released: v.Status.Phase == v1.VolumeReleased || v.Status.Phase == v1.VolumeFailed}
	f.host, f.byHostname = capacity.VolumeHost(driver, v)
	if v.Spec.ClaimRef != nil {
		f.claim = v.Spec.ClaimRef.UID
	}
	if f.claim == "" && v.DeletionTimestamp == nil {
		f.offer = v
	}
	return f
}

// inlineFact is one inline volume of a pod that has a node.
type inlineFact struct {
	node   string
	demand demand
}

// isInline tells an inline volume of the driver.
func isInline(driver string, v *v1.Volume) bool { return v.CSI != nil && v.CSI.Driver == driver }

// hasInline tells whether the pod has inline volumes of the driver.
func hasInline(driver string, pod *v1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if isInline(driver, &pod.Spec.Volumes[i]) {
			return true
		}
	}
	return false
}

// inlineVolumes are the pod's inline volumes of this driver, by key. The driver
// makes none whose attributes cannot be read.
func inlineVolumes(driver string, pod *v1.Pod) map[key]inlineFact {
	var found map[key]inlineFact
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if !isInline(driver, v) {
			continue
		}
		d, err := inlineDemand(v.CSI.VolumeAttributes)
		if err != nil {
			continue
		}
		if found == nil {
			found = map[key]inlineFact{}
		}
		found[inlineKey(pod.UID, v.Name)] = inlineFact{node: pod.Spec.NodeName, demand: d}
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
	// gone: it was deleted. Volumes of its claims may still be on their way.
	gone bool
}

func newClassFact(driver string, c *storagev1.StorageClass) classFact {
	if c.Provisioner != driver {
		return classFact{}
	}
	d, err := classDemand(c.Parameters)
	return classFact{ours: true, demand: d, err: err,
		immediate: c.VolumeBindingMode == nil || *c.VolumeBindingMode == storagev1.VolumeBindingImmediate}
}
