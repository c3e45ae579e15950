package lvm

import (
	"errors"
	"fmt"
	"strings"
)

// What can happen, by what it means for the caller. Every error of this package
// that tells the outcome of a command matches exactly one of them under
// errors.Is; the text and the facts are in [*Error].
var (
	// ErrNoSpace: the volume group (or the layout's constraint on distinct
	// physical volumes) has not enough free extents, or its metadata area has no
	// room for one more volume. Nothing was changed.
	ErrNoSpace = errors.New("not enough free space")
	// ErrThinPoolFull: the thin pool's data or metadata is full, or so full
	// that LVM refuses new volumes.
	ErrThinPoolFull = errors.New("thin pool is full")
	// ErrThinPoolRepair: the thin pool's metadata needs a check or repair.
	ErrThinPoolRepair = errors.New("thin pool needs repair")
	// ErrThinDeviceMissing: the thin pool does not know the thin volume (yet).
	// What LVM has still to tell it, it tells with the next thin volume that is
	// made or removed in that pool.
	ErrThinDeviceMissing = errors.New("thin pool does not know the volume")
	// ErrExists: a logical volume of that name exists.
	ErrExists = errors.New("logical volume exists")
	// ErrNotFound: the logical volume (or thin pool) does not exist.
	ErrNotFound = errors.New("logical volume not found")
	// ErrInUse: the device is open, mounted, or the origin of a snapshot.
	ErrInUse = errors.New("logical volume in use")
	// ErrVolumeGroupMissing: LVM answered, and the volume group is not there.
	ErrVolumeGroupMissing = errors.New("volume group not found")
	// ErrVolumeGroupAmbiguous: two volume groups have the name and none is pinned by UUID.
	ErrVolumeGroupAmbiguous = errors.New("volume group name is ambiguous")
	// ErrPhysicalVolumeMissing: a disk of the volume group is not there.
	ErrPhysicalVolumeMissing = errors.New("physical volume missing")
	// ErrInvalid: the request itself is wrong (name, size, tag); nothing was run.
	ErrInvalid = errors.New("invalid request")
	// ErrReport: LVM's report could not be read. It says nothing about what exists.
	ErrReport = errors.New("unreadable LVM report")
	// ErrTimeout: the caller's context ended while waiting for LVM, before the
	// command was started. Nothing was changed. It also matches the context's error.
	ErrTimeout = errors.New("LVM is busy")
	// ErrUnavailable: lvm could not be started, died, or the client is closed.
	// Whether a command had an effect must be read from a fresh state.
	ErrUnavailable = errors.New("LVM is not available")
	// ErrFailed: LVM refused for a reason this package does not know.
	ErrFailed = errors.New("LVM command failed")
)

// Error is the outcome of a command that failed.
type Error struct {
	// Kind is one of the sentinels above.
	Kind error
	// Op is the LVM command, for example "lvcreate".
	Op string
	// Object is what it was about: <volume group> or <volume group>/<logical volume>.
	Object string
	// ExitCode is the command's status as LVM reported it (lvm(8): 3 for an
	// invalid command line, 5 for a failed command); 0 if none was run.
	ExitCode int
	// Messages are LVM's own errors and warnings.
	Messages []string
	// Cause is the underlying error, if any.
	Cause error
}

// Error names the operation, the object, what happened and LVM's own words.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %v", e.Op, e.Object, e.Kind)
	if len(e.Messages) > 0 {
		fmt.Fprintf(&b, ": %s", strings.Join(e.Messages, "; "))
	}
	if e.Cause != nil {
		fmt.Fprintf(&b, ": %v", e.Cause)
	}
	return b.String()
}

// Unwrap makes errors.Is match the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Cause}
}
