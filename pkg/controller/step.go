package controller

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

const (
	// provisionerFinalizer is external-provisioner's. The provisioner on the
	// node removes it when the logical volume is gone.
	provisionerFinalizer = "external-provisioner.volume.kubernetes.io/finalizer"
	// provisionedByAnnotation names the provisioner that made a volume and will
	// delete it. Volumes without it are an administrator's own.
	provisionedByAnnotation = "pv.kubernetes.io/provisioned-by"
)

// step is the next thing to do about a volume on a lost node.
type step int

const (
	// stepNone: nothing, or somebody else's move.
	stepNone step = iota
	// stepReport: its claim cannot be used, and a person has to decide.
	stepReport
	// stepDeleteClaim: the class has opted in.
	stepDeleteClaim
	// stepDeleteVolume: the claim is gone and the reclaim policy is Delete.
	stepDeleteVolume
	// stepFinishDeletion: the object was deleted and waits for the provisioner.
	stepFinishDeletion
)

// String is the label of metrics and logs.
func (s step) String() string {
	switch s {
	case stepReport:
		return "report"
	case stepDeleteClaim:
		return "delete_claim"
	case stepDeleteVolume:
		return "delete_volume"
	case stepFinishDeletion:
		return "finish_deletion"
	default:
		return "none"
	}
}

// isOurs tells whether a PersistentVolume is the driver's.
func isOurs(driverName string, v *v1.PersistentVolume) bool {
	return v.Spec.CSI != nil && v.Spec.CSI.Driver == driverName
}

// inUse tells whether anybody still waits for the volume or for its end. One
// that nobody is bound to and that is kept is an administrator's business.
func inUse(v *v1.PersistentVolume) bool {
	return v.Status.Phase == v1.VolumeBound || v.DeletionTimestamp != nil ||
		v.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete
}

// nextStep decides what to do about a volume of the driver whose node is lost.
// The claim is that of the name in claimRef, the class that of the volume's
// class name; either is nil if there is none.
//
// It does what the provisioner on the node would have done, and no more: of
// volumes that nobody has deleted it deletes those that are Released, have the
// reclaim policy Delete and were made by this driver's provisioner.
func nextStep(driverName string, v *v1.PersistentVolume, claim *v1.PersistentVolumeClaim, class *storagev1.StorageClass) step {
	switch {
	case !isOurs(driverName, v):
		return stepNone
	case v.Status.Phase == v1.VolumeBound:
		if !boundTo(v, claim) || claim.DeletionTimestamp != nil {
			return stepNone // the persistent volume controller will release it
		}
		if policy, err := policyOf(driverName, class); err == nil && policy == PolicyDeleteClaim {
			return stepDeleteClaim
		}
		return stepReport
	case v.DeletionTimestamp != nil:
		if slices.Contains(v.Finalizers, provisionerFinalizer) {
			return stepFinishDeletion
		}
		return stepNone // others' finalizers are others' to remove
	case v.Status.Phase == v1.VolumeReleased &&
		v.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete &&
		v.Annotations[provisionedByAnnotation] == driverName:
		return stepDeleteVolume
	}
	return stepNone
}

// boundTo tells whether volume and claim name each other.
func boundTo(v *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) bool {
	ref := v.Spec.ClaimRef
	return claim != nil && ref != nil && ref.UID == claim.UID && claim.Spec.VolumeName == v.Name
}
