package driver

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csi-local/csi-local/pkg/blockdev"
	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

// Kinds of errors of this package; the table in codeTable gives each its gRPC
// code. Handlers return them wrapped, an interceptor makes the status.
var (
	// errInvalid: the request itself is wrong.
	errInvalid = errors.New("invalid request")
	// errNotFound: no volume of this driver has the ID, or nothing is at the path.
	errNotFound = errors.New("volume not found")
	// errConflict: the name is taken by a volume that does not fit the request.
	errConflict = errors.New("volume exists and differs")
	// errExhausted: the pool cannot take the volume; another node may.
	errExhausted = errors.New("not enough capacity in the pool")
	// errPoolUnusable: something is wrong with the pool on this node, and
	// another node may be better.
	errPoolUnusable = errors.New("pool cannot be used")
	// errOutOfRange: no size satisfies the request, or expansion does not fit.
	errOutOfRange = errors.New("size out of range")
	// errPrecondition: the volume is not in the state that the call needs.
	errPrecondition = errors.New("volume is not in the right state")
	// errBadToken: the starting token of a listing is not ours or too old.
	errBadToken = errors.New("starting token is not valid")
	// errNotReady: something that should come by itself is not there yet.
	errNotReady = errors.New("not ready yet")
	// errProtected: going on could destroy data; a person must look at it.
	errProtected = errors.New("refused to protect data")
	// errTags: a volume of ours carries tags that this version cannot read.
	errTags = errors.New("unreadable tags")
	// errPanic: a bug in this driver, caught for this one call.
	errPanic = errors.New("internal error of the driver")
)

// codeRow maps a kind of error to the gRPC code, which decides what the
// callers do next. csi-provisioner: ResourceExhausted asks for another node;
// Canceled, DeadlineExceeded, Unavailable and Aborted mean "maybe in progress";
// every other code means "finished, nothing was created".
type codeRow struct {
	kind error
	code codes.Code
	// create and expand override code for CreateVolume and NodeExpandVolume;
	// codes.OK means no override.
	create, expand codes.Code
}

// codeTable is searched from the top, so what is certain comes before what wraps it.
func codeTable() []codeRow {
	return []codeRow{
		{kind: context.DeadlineExceeded, code: codes.DeadlineExceeded},
		{kind: context.Canceled, code: codes.Canceled},
		{kind: errPanic, code: codes.Internal},
		{kind: errStopping, code: codes.Unavailable},
		{kind: errBusy, code: codes.Aborted},
		{kind: errBadToken, code: codes.Aborted},
		{kind: errInvalid, code: codes.InvalidArgument},
		{kind: errNotFound, code: codes.NotFound},
		{kind: errConflict, code: codes.AlreadyExists},
		{kind: errElsewhere, code: codes.ResourceExhausted, expand: codes.OutOfRange},
		{kind: errExhausted, code: codes.ResourceExhausted, expand: codes.OutOfRange},
		{kind: errPoolUnusable, code: codes.Unavailable, create: codes.ResourceExhausted},
		{kind: errOutOfRange, code: codes.OutOfRange},
		{kind: capacity.ErrOutOfRange, code: codes.OutOfRange},
		{kind: capacity.ErrInvalid, code: codes.InvalidArgument},
		{kind: errPrecondition, code: codes.FailedPrecondition},
		{kind: errNotReady, code: codes.Unavailable},
		{kind: errProtected, code: codes.Internal},
		{kind: errTags, code: codes.Internal},

		// csi-resizer and kubelet take ResourceExhausted in expansion for "still
		// running" and OutOfRange for "infeasible, the user may ask for less".
		{kind: lvm.ErrNoSpace, code: codes.ResourceExhausted, expand: codes.OutOfRange},
		{kind: lvm.ErrThinPoolFull, code: codes.ResourceExhausted, expand: codes.OutOfRange},
		// A pool that is broken on this node may be well on another: creation
		// moves on. For a volume that exists only waiting helps.
		{kind: lvm.ErrThinPoolRepair, code: codes.Unavailable, create: codes.ResourceExhausted},
		{kind: lvm.ErrVolumeGroupMissing, code: codes.Unavailable, create: codes.ResourceExhausted},
		{kind: lvm.ErrVolumeGroupAmbiguous, code: codes.Unavailable, create: codes.ResourceExhausted},
		{kind: lvm.ErrPhysicalVolumeMissing, code: codes.Unavailable, create: codes.ResourceExhausted},
		{kind: lvm.ErrThinDeviceMissing, code: codes.Internal},
		{kind: lvm.ErrExists, code: codes.AlreadyExists},
		{kind: lvm.ErrNotFound, code: codes.NotFound},
		{kind: lvm.ErrInUse, code: codes.FailedPrecondition},
		{kind: lvm.ErrInvalid, code: codes.InvalidArgument},
		// An unreadable report says nothing about what exists. Internal would
		// tell the provisioner that nothing was created.
		{kind: lvm.ErrReport, code: codes.Unavailable},
		{kind: lvm.ErrTimeout, code: codes.DeadlineExceeded},
		{kind: lvm.ErrUnavailable, code: codes.Unavailable},
		{kind: lvm.ErrFailed, code: codes.Internal},

		{kind: blockdev.ErrBusy, code: codes.FailedPrecondition},
		// A device node that is late or stale comes right by itself or by a retry.
		{kind: blockdev.ErrNotBlockDevice, code: codes.Unavailable},
		{kind: blockdev.ErrWrongDevice, code: codes.Unavailable},
		{kind: blockdev.ErrNoDevice, code: codes.Unavailable},
		{kind: poolconfig.ErrInvalid, code: codes.FailedPrecondition},
		// Not met in calls, but listed, so that the test finds every kind here.
		{kind: capacity.ErrAnnotation, code: codes.Internal},
		{kind: capacity.ErrReport, code: codes.Internal},
	}
}

// Methods whose codes differ from the others'; the last part of the gRPC method name.
const (
	methodCreate = "CreateVolume"
	methodExpand = "NodeExpandVolume"
)

// toStatus turns an error of a handler into the gRPC status for the method
// (the last part of its name). A status error stays what it is; an error that
// the table does not know is Internal.
func toStatus(method string, err error) error {
	if err == nil {
		return nil
	}
	if s, ok := status.FromError(err); ok {
		return s.Err()
	}
	return status.Error(codeOf(method, err), err.Error())
}

func codeOf(method string, err error) codes.Code {
	// A type instead of a sentinel: wrong parameters of a class or an inline volume.
	if parameter := (*capacity.ParameterError)(nil); errors.As(err, &parameter) {
		return codes.InvalidArgument
	}
	for _, row := range codeTable() {
		if !errors.Is(err, row.kind) {
			continue
		}
		switch {
		case method == methodCreate && row.create != codes.OK:
			return row.create
		case method == methodExpand && row.expand != codes.OK:
			return row.expand
		case method == methodExpand && row.code == codes.FailedPrecondition:
			// kubelet would take it for "not while the volume is in use": it tells nobody, and
			// does not ask again before the volume is unmounted.
			return codes.Internal
		}
		return row.code
	}
	return codes.Internal
}
