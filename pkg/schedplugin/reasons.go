package schedplugin

import (
	"fmt"
	"strconv"
)

// Reason says why a pod or a node was refused. Its String is what stands in the
// pod's status: it holds no figures, because the scheduler groups nodes by it.
// The figures are in the log and in the pod's event.
type Reason uint8

const (
	// ReasonNone: not refused.
	ReasonNone Reason = iota
	// ReasonInsufficientCapacity: used + requested is more than ratio × allocatable.
	ReasonInsufficientCapacity
	// ReasonTooManyVolumes: the node's CSINode allows no more volumes of the driver.
	ReasonTooManyVolumes
	// ReasonCapacityUnknown: the node has published no capacity.
	ReasonCapacityUnknown
	// ReasonCapacityUnreadable: what the node published cannot be read.
	ReasonCapacityUnreadable
	// ReasonPoolMissing: the node has not the pool.
	ReasonPoolMissing
	// ReasonDriverNotRegistered: the driver is not in the node's CSINode.
	ReasonDriverNotRegistered
	// ReasonPlacedElsewhere: the claim names another node, or is bound there.
	// VolumeBinding refuses such nodes too, a little later perhaps.
	ReasonPlacedElsewhere
	// ReasonNotSynced: the books are not complete yet after a start.
	ReasonNotSynced
	// ReasonPoolUnknown: no node has the pool.
	ReasonPoolUnknown
	// ReasonClassMissing: the claim's StorageClass is not there.
	ReasonClassMissing
	// ReasonClassUnreadable: the class's parameters make no volume.
	ReasonClassUnreadable
	// ReasonImmediate: the class does not wait for the scheduler.
	ReasonImmediate
	// ReasonClaimMissing: a claim of the pod is not there.
	ReasonClaimMissing
	// ReasonClaimNotOwned: the claim of a generic ephemeral volume belongs to somebody else.
	ReasonClaimNotOwned
	// ReasonClaimUnusable: the claim is being deleted, or has lost its volume.
	ReasonClaimUnusable
	// ReasonInlineUnreadable: the attributes of an inline volume make no volume.
	ReasonInlineUnreadable
	// reasons is their number.
	reasons
)

// String is the stable text for the pod's status.
func (r Reason) String() string {
	return r.texts()[1]
}

// Label is the stable value of the metric's label.
func (r Reason) Label() string {
	return r.texts()[0]
}

func (r Reason) texts() [2]string {
	switch r {
	case ReasonInsufficientCapacity:
		return [2]string{"insufficient_capacity", "node(s) had not enough local volume capacity"}
	case ReasonTooManyVolumes:
		return [2]string{"too_many_volumes", "node(s) had no local volume slot left"}
	case ReasonCapacityUnknown:
		return [2]string{"capacity_unknown", "node(s) had not published local volume capacity"}
	case ReasonCapacityUnreadable:
		return [2]string{"capacity_unreadable", "node(s) had published unreadable local volume capacity"}
	case ReasonPoolMissing:
		return [2]string{"pool_missing", "node(s) had not the local volume pool"}
	case ReasonDriverNotRegistered:
		return [2]string{"driver_not_registered", "node(s) had not the local volume driver"}
	case ReasonPlacedElsewhere:
		return [2]string{"placed_elsewhere", "node(s) were not the one that the claim's local volume was placed on"}
	case ReasonNotSynced:
		return [2]string{"not_synced", "local volumes are not all known yet"}
	case ReasonPoolUnknown:
		return [2]string{"pool_unknown", "no node has the local volume pool"}
	case ReasonClassMissing:
		return [2]string{"class_missing", "StorageClass not found"}
	case ReasonClassUnreadable:
		return [2]string{"class_unreadable", "StorageClass has parameters that make no local volume"}
	case ReasonImmediate:
		return [2]string{"immediate_binding", "local volumes need a StorageClass with volumeBindingMode WaitForFirstConsumer"}
	case ReasonClaimMissing:
		return [2]string{"claim_missing", "PersistentVolumeClaim not found"}
	case ReasonClaimNotOwned:
		return [2]string{"claim_not_owned", "PersistentVolumeClaim of the ephemeral volume was not made for the pod"}
	case ReasonClaimUnusable:
		return [2]string{"claim_unusable", "PersistentVolumeClaim is being deleted or has lost its volume"}
	case ReasonInlineUnreadable:
		return [2]string{"inline_unreadable", "inline volume has attributes that make no local volume"}
	default:
		return [2]string{"none", ""}
	}
}

// Shortage says why a node was refused, with figures.
type Shortage struct {
	Reason Reason
	Pool   string
	// Requested and Left are bytes for ReasonInsufficientCapacity, volumes for
	// ReasonTooManyVolumes. Left may be negative: more is in use than there is.
	Requested, Left int64
	// Allocatable is what the node published, in the same unit.
	Allocatable int64
	// Ratio is the pool's oversell ratio.
	Ratio float64
	// Preemptible: evicting pods whose volumes go with them would make room.
	Preemptible bool
}

// String is for people: it goes into the pod's event and into the log.
func (s Shortage) String() string {
	switch s.Reason {
	case ReasonInsufficientCapacity:
		return fmt.Sprintf("pool %s: %s requested, %s left of %s (oversell %s)",
			s.Pool, humanBytes(s.Requested), humanBytes(s.Left), humanBytes(s.Allocatable), humanRatio(s.Ratio))
	case ReasonTooManyVolumes:
		return fmt.Sprintf("%d volumes requested, %d slots left of %d", s.Requested, s.Left, s.Allocatable)
	case ReasonCapacityUnknown, ReasonCapacityUnreadable, ReasonPoolMissing:
		return fmt.Sprintf("pool %s: %s", s.Pool, s.Reason)
	default:
		return s.Reason.String()
	}
}

// humanBytes writes bytes in the largest unit that leaves at least 1, exactly
// where two decimals are enough.
func humanBytes(bytes int64) string {
	units := [...]string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	value, unit := float64(bytes), 0
	for ; (value >= 1024 || value <= -1024) && unit < len(units)-1; unit++ {
		value /= 1024
	}
	text := strconv.FormatFloat(value, 'f', 2, 64)
	if rounded, err := strconv.ParseFloat(text, 64); err == nil {
		text = strconv.FormatFloat(rounded, 'f', -1, 64)
	}
	return text + " " + units[unit]
}

// humanRatio always shows a decimal, so that 1 reads as a ratio.
func humanRatio(ratio float64) string {
	if ratio == float64(int64(ratio)) {
		return strconv.FormatFloat(ratio, 'f', 1, 64)
	}
	return strconv.FormatFloat(ratio, 'f', -1, 64)
}
