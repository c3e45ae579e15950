package driver

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// FailureClass says what kind of trouble a failed call had. It is a label of the
// metrics, and FailureCapacity makes the pools be read again.
type FailureClass string

// The classes.
const (
	// FailureCapacity: no room for the volume.
	FailureCapacity FailureClass = "capacity"
	// FailurePermission: the caller may not do it.
	FailurePermission FailureClass = "permission"
	// FailureTopology: this node is not where the volume can be.
	FailureTopology FailureClass = "topology"
	// FailureTransient: the same call may succeed later.
	FailureTransient FailureClass = "transient"
	// FailureOther is everything else: wrong requests, broken volumes, bugs.
	FailureOther FailureClass = "other"
)

// errElsewhere: another node can take the volume, and no figure of this one is
// to blame. It asks for another node as errExhausted does.
var errElsewhere = fmt.Errorf("this node cannot take the volume: %w", errExhausted)

// classOf sorts a failure by what it is, and by its code where that says enough.
func classOf(err error, code codes.Code) FailureClass {
	switch {
	case errors.Is(err, errElsewhere):
		return FailureTopology
	// In expansion these have another code.
	case errors.Is(err, errExhausted), errors.Is(err, lvm.ErrNoSpace), errors.Is(err, lvm.ErrThinPoolFull):
		return FailureCapacity
	}
	switch code {
	case codes.ResourceExhausted:
		return FailureCapacity
	case codes.PermissionDenied, codes.Unauthenticated:
		return FailurePermission
	case codes.Aborted, codes.Canceled, codes.DeadlineExceeded, codes.Unavailable:
		return FailureTransient
	default:
		return FailureOther
	}
}

// noteFailure counts a failure, and says so if the pools hold less than somebody thought.
func (d *Driver) noteFailure(method string, err error, code codes.Code) {
	class := classOf(err, code)
	d.metrics.failures.WithLabelValues(method, code.String(), string(class)).Inc()
	if class == FailureCapacity && d.onCapacityFailure != nil {
		d.onCapacityFailure()
	}
}
