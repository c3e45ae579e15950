package driver

import (
	"time"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// volumeState is where a volume is in its life. It is kept in the volume's
// tags and nowhere else, so whatever crashes, the next reader knows.
type volumeState string

const (
	// stateNew: made, and never handed to a pod. Its ends may still hold what
	// the extents held before; the first stage clears them. Nothing in it is
	// anybody's data, so it may be cleared and formatted again.
	stateNew volumeState = "new"
	// stateUsed: handed out at least once. From here on it is never cleared or
	// formatted, whatever a probe says.
	stateUsed volumeState = "used"
	// stateDeleting: DeleteVolume was accepted. It is wiped and removed, and
	// never handed out again; a restart takes the wipe up again.
	stateDeleting volumeState = "deleting"
)

// volume is a logical volume of this driver with its tags read.
type volume struct {
	lvm.LogicalVolume
	// CSIName is the name that CreateVolume was called with (inline volumes:
	// the volume handle that kubelet chose).
	CSIName string
	// Pool is the pool's name in the pools file at creation.
	Pool   string
	Layout string
	// ClassHash is a fingerprint of what CreateVolume was asked for besides
	// name and size, so that a repeated call can tell "the same" from "another".
	ClassHash string
	// Wipe is the wipe policy that was in force at creation; deletion uses the
	// stricter one of this and the pool's policy then.
	Wipe  string
	State volumeState
	// FSType is the file system that was made on it; empty for block volumes
	// and for volumes that were not staged yet.
	FSType string
	// EphemeralPodUID is set for inline volumes: the pod that it lives with.
	EphemeralPodUID string
	// Seen tells that the PersistentVolume was seen at least once. Volumes that
	// were used must have had one, whether or not this is set.
	Seen bool
	// Orphan is since when the PersistentVolume is known to be missing, zero if it
	// is not; see package orphans.
	Orphan time.Time
}

// ID is the CSI volume ID; for an inline volume it is the handle.
func (v volume) ID() string {
	if v.EphemeralPodUID != "" {
		return v.CSIName
	}
	return volumeID(v.Ref())
}
