package driver

import (
	"context"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// Volumes is what the driver needs of LVM. *lvm.Client and *lvmfake.LVM
// implement it; the contract suite in lvmtest holds both to the same behaviour.
//
// State and Refresh may be called at any time from any goroutine. The mutating
// methods are serialised by the implementation. Their context bounds only the
// wait for their turn (then the error matches lvm.ErrTimeout and nothing was
// changed); once a command was started they return when it has ended, however
// long that takes. Callers that must answer earlier use [operations].
type Volumes interface {
	// State returns the last known state without starting a process.
	State(ctx context.Context) (*lvm.State, error)
	// Refresh reads the state anew from LVM.
	Refresh(ctx context.Context) (*lvm.State, error)
	// Create makes a volume in one command, tags included; lvm.ErrExists if the name is taken.
	Create(ctx context.Context, req lvm.CreateRequest) (lvm.LogicalVolume, error)
	// Remove deactivates and removes; lvm.ErrNotFound if it is not there, lvm.ErrInUse if open.
	Remove(ctx context.Context, ref lvm.Ref) error
	// Extend makes the volume at least sizeBytes big (rounded up to extents);
	// a volume that is big enough is left alone and returned.
	Extend(ctx context.Context, ref lvm.Ref, sizeBytes int64) (lvm.LogicalVolume, error)
	// Activate makes the device node appear and returns the volume with its device number.
	Activate(ctx context.Context, ref lvm.Ref) (lvm.LogicalVolume, error)
	// ChangeTags adds and removes tags in one command; adding a tag that is
	// there and removing one that is not are no errors.
	ChangeTags(ctx context.Context, ref lvm.Ref, add, remove []string) error
	// ChangeTagsUnlessOrigin is ChangeTags for a volume of which there is no
	// thick snapshot; else nothing is changed, and the error matches lvm.ErrInUse.
	ChangeTagsUnlessOrigin(ctx context.Context, ref lvm.Ref, add, remove []string) error
	// Healthy tells whether LVM answers. It asks LVM only if the last answer is
	// old or was bad, and then waits as long as ctx allows.
	Healthy(ctx context.Context) error
}

// Devices works on block devices directly, without a process. The real one is
// blockdev.Device; tests run the same code on sparse files.
type Devices interface {
	// Check tells whether path is a block device with this number; the error says what it is instead.
	Check(path string, major, minor int) error
	// OpenCount is the kernel's count of openers of a device-mapper device.
	OpenCount(major, minor int) (int, error)
	// SizeBytes is the device's size.
	SizeBytes(path string) (int64, error)
	// ReadEnds reads the first and last MiB past the page cache, so that a device that cannot be read is found out.
	ReadEnds(ctx context.Context, path string) error
	// ClearEnds overwrites with zeros the places where file systems, RAID, LUKS,
	// LVM and partition tables keep their signatures, and makes that durable.
	ClearEnds(ctx context.Context, path string) error
	// Zero makes every byte read as zero and makes that durable. discard gives
	// the space back to the device where it can promise zeros, and writes
	// elsewhere. progress (may be nil) is called with bytes done, at most a few times a second.
	Zero(ctx context.Context, path string, discard bool, progress func(doneBytes int64)) error
}
