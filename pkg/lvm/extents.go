package lvm

import (
	"fmt"
	"math"
)

// maxExtents is what LVM's 32-bit counts can hold for one volume.
const maxExtents = math.MaxUint32

// roundUpToExtents returns the number of extents that hold sizeBytes, rounded
// up to a multiple of groups (the stripes of a striped volume, else 1).
func roundUpToExtents(sizeBytes, extentSizeBytes, groups int64) (int64, error) {
	if sizeBytes <= 0 {
		return 0, fmt.Errorf("%w: a size of %d bytes", ErrInvalid, sizeBytes)
	}
	if extentSizeBytes <= 0 || groups <= 0 || groups > maxExtents {
		return 0, fmt.Errorf("%w: extents of %d bytes in groups of %d", ErrInvalid, extentSizeBytes, groups)
	}
	extents := sizeBytes / extentSizeBytes
	if sizeBytes%extentSizeBytes != 0 {
		extents++
	}
	// From here on the numbers are far from overflowing.
	if extents > maxExtents {
		return 0, tooBig(sizeBytes)
	}
	if rest := extents % groups; rest != 0 {
		extents += groups - rest
	}
	if extents > maxExtents || extents > math.MaxInt64/extentSizeBytes {
		return 0, tooBig(sizeBytes)
	}
	return extents, nil
}

func tooBig(sizeBytes int64) error {
	return fmt.Errorf("%w: %d bytes are more than LVM can address", ErrInvalid, sizeBytes)
}

const (
	// raidRegionBytes is what one bit of a raid's bitmap stands for (lvm.conf,
	// activation/raid_region_size).
	raidRegionBytes = 2 << 20
	// maxRAIDRegions is the most bits that a bitmap has; rather than take more,
	// LVM doubles the regions.
	maxRAIDRegions = 1 << 21
	sectorBytes    = 512
)

// raid1Footprint is what a new raid1 of that many data extents takes in all: for
// each leg the data and its metadata, two superblocks of 4 KiB and a bit for
// each region, in whole extents.
func raid1Footprint(dataExtents, extentSizeBytes int64, legs int) int64 {
	up := func(n, unit int64) int64 { return (n + unit - 1) / unit }
	size := dataExtents * extentSizeBytes
	region := int64(raidRegionBytes)
	for up(size, region) > maxRAIDRegions {
		region *= 2
	}
	metadataBytes := up(2*4096+up(size/region, 8), sectorBytes) * sectorBytes
	return int64(legs) * (dataExtents + up(metadataBytes, extentSizeBytes))
}
