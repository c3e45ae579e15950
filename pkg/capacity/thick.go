package capacity

import (
	"cmp"
	"slices"
)

// ThickUsage is what a thick pool's volume group holds. All counts are extents
// of ExtentSizeBytes and not negative.
type ThickUsage struct {
	ExtentSizeBytes int64
	// DiskFreeExtents are the free extents of each physical volume that may be
	// allocated from and is not missing, in any order.
	DiskFreeExtents []int64
	// OwnExtents are the footprints of this driver's volumes, orphans not
	// among them. Orphans and foreign volumes are in no term, so they make the
	// pool smaller.
	OwnExtents int64
	// ReserveBytes is kept back by the administrator.
	ReserveBytes int64
}

// Allocatable is what this driver's volumes may occupy in total: the extents
// they have plus the free ones, less the reserve, never below 0. Creating or
// deleting a volume of ours does not change it.
func (u ThickUsage) Allocatable() int64 {
	bytes := saturatingMultiply(saturatingAdd(u.freeExtents(), u.OwnExtents), u.ExtentSizeBytes)
	return max(bytes-u.ReserveBytes, 0)
}

// Allocated is what this driver's volumes occupy now.
func (u ThickUsage) Allocated() int64 {
	return saturatingMultiply(u.OwnExtents, u.ExtentSizeBytes)
}

// Available is what new volumes may occupy: allocatable − allocated, never below 0.
func (u ThickUsage) Available() int64 { return max(u.Allocatable()-u.Allocated(), 0) }

func (u ThickUsage) freeExtents() int64 {
	var sum int64
	for _, free := range u.DiskFreeExtents {
		sum = saturatingAdd(sum, free)
	}
	return sum
}

// MaximumVolumeSize is the size of the largest volume of that shape that can be
// made now, 0 if none can. Stripes and copies need distinct disks, so it may be
// far less than what is available.
func (u ThickUsage) MaximumVolumeSize(shape Shape) int64 {
	unit, err := shape.unit(u.ExtentSizeBytes)
	if err != nil {
		return 0
	}
	available := u.Available()
	var most int64
	switch shape.Layout {
	case LayoutStriped:
		most = saturatingMultiply(stripeRows(u.DiskFreeExtents, int(shape.copiesOrStripes())), unit)
		most = min(most, available)
	case LayoutRAID1:
		most = u.largestMirror(shape, available)
	default:
		most = available
	}
	return roundDown(min(most, maxVolumeBytes(unit, u.ExtentSizeBytes)), unit)
}

// stripeRows is how many rows of one extent on each of n distinct disks LVM
// finds: it takes the n disks with the most free extents, fills the smallest of
// them, and starts again with what is left. Other choices could find more; what
// counts is what LVM does (measured with LVM 2.03.16, allocation policy normal).
func stripeRows(diskFree []int64, n int) int64 {
	free := slices.Clone(diskFree)
	var rows int64
	for len(free) >= n {
		slices.SortFunc(free, func(a, b int64) int { return cmp.Compare(b, a) })
		fill := free[n-1]
		if fill <= 0 {
			break
		}
		for i := range n {
			free[i] -= fill
		}
		rows = saturatingAdd(rows, fill)
	}
	return rows
}

// largestMirror is the largest RAID1 volume whose every copy, metadata included,
// has a disk of its own. LVM would go on and lay parts of two copies on one disk,
// at different places, when no free disk is left; the loss of that disk would
// then be the loss of the volume.
func (u ThickUsage) largestMirror(shape Shape, availableBytes int64) int64 {
	copies := int(shape.copiesOrStripes())
	free := slices.Sorted(slices.Values(u.DiskFreeExtents))
	if len(free) < copies {
		return 0
	}
	leg := min(free[len(free)-copies], availableBytes/u.ExtentSizeBytes/int64(copies))
	// Metadata grows with the data in steps, so this may be one too many, never
	// one too few.
	metadata := raidMetadataExtents(saturatingMultiply(leg, u.ExtentSizeBytes), u.ExtentSizeBytes)
	return saturatingMultiply(max(leg-metadata, 0), u.ExtentSizeBytes)
}
