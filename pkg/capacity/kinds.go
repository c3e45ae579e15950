package capacity

import "slices"

// PoolType says what a pool is made of.
type PoolType string

const (
	// PoolThick: volumes take extents of the volume group when they are made.
	PoolThick PoolType = "thick"
	// PoolThin: volumes are virtual and take chunks of a thin pool as they are written.
	PoolThin PoolType = "thin"
)

// PoolTypes are all pool types.
func PoolTypes() []PoolType { return []PoolType{PoolThick, PoolThin} }

// Layout says how a volume lies on the disks of its pool.
type Layout string

const (
	// LayoutLinear: extents of any disks, one after the other.
	LayoutLinear Layout = "linear"
	// LayoutStriped: spread over Stripes disks, so that they work at once.
	LayoutStriped Layout = "striped"
	// LayoutRAID1: a copy on each of Stripes disks.
	LayoutRAID1 Layout = "raid1"
	// LayoutThin: in a thin pool. No class parameter asks for it, the pool's type does.
	LayoutThin Layout = "thin"
)

// ClassLayouts are the layouts that a class may ask for (thick pools only).
func ClassLayouts() []Layout { return []Layout{LayoutLinear, LayoutStriped, LayoutRAID1} }

// Shape is a layout with its numbers; the zero value means linear.
type Shape struct {
	Layout Layout
	// Stripes is the number of stripes (LayoutStriped, 2 to MaxStripes) or of
	// copies (LayoutRAID1, 2 to MaxCopies); otherwise 0 or 1.
	Stripes int
	// StripeSizeBytes is a power of two from MinStripeSizeBytes up to the
	// pool's extent size, for LayoutStriped; 0 leaves it to LVM (64 KiB).
	StripeSizeBytes int64
}

// Filesystem is what a volume is formatted with.
type Filesystem string

const (
	// FilesystemNone: a raw block volume.
	FilesystemNone  Filesystem = ""
	FilesystemExt4  Filesystem = "ext4"
	FilesystemXFS   Filesystem = "xfs"
	FilesystemBtrfs Filesystem = "btrfs"
)

// Filesystems are all file systems that can be made, FilesystemNone apart.
func Filesystems() []Filesystem {
	return []Filesystem{FilesystemExt4, FilesystemXFS, FilesystemBtrfs}
}

// ParseFilesystem returns the file system of that name, FilesystemNone for "".
func ParseFilesystem(name string) (Filesystem, bool) {
	f := Filesystem(name)
	return f, f == FilesystemNone || slices.Contains(Filesystems(), f)
}

// WipePolicy says how the bytes of a deleted volume are made unreadable.
type WipePolicy string

const (
	// WipeZero writes zeros over the whole volume before its extents are freed.
	WipeZero WipePolicy = "zero"
	// WipeDiscard gives the blocks back to the device where it guarantees that
	// they read as zeros afterwards, and writes zeros elsewhere.
	WipeDiscard WipePolicy = "discard"
	// WipeUnsafeNone wipes nothing: the next tenant may read the bytes.
	WipeUnsafeNone WipePolicy = "unsafe-none"
)

// WipePolicies are all wipe policies, strictest first.
func WipePolicies() []WipePolicy { return []WipePolicy{WipeZero, WipeDiscard, WipeUnsafeNone} }

// AtLeast tells whether w is as strict as other or stricter. A value that is no
// policy is less strict than any.
func (w WipePolicy) AtLeast(other WipePolicy) bool {
	mine := slices.Index(WipePolicies(), w)
	theirs := slices.Index(WipePolicies(), other)
	return mine >= 0 && (theirs < 0 || mine <= theirs)
}
