package lvm

// CreateRequest asks for one logical volume. Exactly the fields that the segment
// type knows may be set; anything else is [ErrInvalid].
type CreateRequest struct {
	Ref
	// SegmentType is SegLinear, SegStriped, SegRAID1 or SegThin.
	SegmentType string
	// SizeBytes is rounded up to whole extents (times Stripes for striped
	// volumes); it must be > 0. The returned volume has the true size.
	SizeBytes int64
	// Stripes is the number of stripes (SegStriped, >= 2) or of legs (SegRAID1, >= 2).
	Stripes int
	// StripeSizeBytes is a power of two, at least 4 KiB; 0 leaves it to LVM (64 KiB).
	StripeSizeBytes int64
	// ThinPool names the pool of a SegThin volume.
	ThinPool string
	// Tags are set in the same command that makes the volume, so that there is
	// no moment at which it exists without them.
	Tags []string
}

// ThinPoolRequest asks for a thin pool in a volume group; for tools and tests,
// the driver itself never makes one.
type ThinPoolRequest struct {
	Ref
	SizeBytes int64
	// ChunkSizeBytes is the unit of allocation, 64 KiB to 1 GiB in steps of 64 KiB; 0 leaves it to LVM.
	ChunkSizeBytes int64
	Tags           []string
}
