package capacity

import "fmt"

// Footprint returns the bytes that a volume of volumeBytes takes from its pool:
// whole extents for linear and striped, every copy and its metadata for RAID1,
// the virtual size for thin. volumeBytes need not be rounded. Errors are
// *SizeError as in [VolumeSize]; the result never overflows.
func Footprint(shape Shape, volumeBytes, extentSizeBytes int64) (int64, error) {
	unit, err := shape.unit(extentSizeBytes)
	if err != nil {
		return 0, err
	}
	if volumeBytes < 0 {
		return 0, &SizeError{Kind: ErrInvalid, Problem: fmt.Sprintf("volume of %d bytes", volumeBytes)}
	}
	size, ok := roundUp(volumeBytes, unit)
	if !ok {
		return 0, footprintOverflow(shape, volumeBytes)
	}
	if shape.Layout != LayoutRAID1 || size == 0 {
		return size, nil
	}
	leg := size/extentSizeBytes + raidMetadataExtents(size, extentSizeBytes)
	extents, ok := multiply(leg, shape.copiesOrStripes())
	if !ok {
		return 0, footprintOverflow(shape, volumeBytes)
	}
	bytes, ok := multiply(extents, extentSizeBytes)
	if !ok {
		return 0, footprintOverflow(shape, volumeBytes)
	}
	return bytes, nil
}

func footprintOverflow(shape Shape, volumeBytes int64) error {
	return &SizeError{Kind: ErrOutOfRange, Problem: fmt.Sprintf("%s volume of %s takes more than a 64-bit number of bytes", shape.Layout, FormatBytes(volumeBytes))}
}

// What LVM reserves for RAID metadata: two superblocks (dm-raid's and the write
// intent bitmap's) and one bit for each region of the volume.
const (
	raidSuperblockBytes   int64 = 2 * 4096
	raidRegionBytes       int64 = 2 << 20 // lvm.conf, activation/raid_region_size
	raidMaxRegions        int64 = 1 << 21 // above it, LVM doubles the region's size
	raidRegionsPerByte    int64 = 8
	raidMetadataUnitBytes int64 = 512
)

// raidMetadataExtents is the extents that each copy of a RAID1 volume takes
// beside its data, when it is made with that size: one extent for every extent
// size from 512 KiB up, whatever the size of the volume. LVM does not enlarge
// the metadata when a volume is extended, so with smaller extents an extended
// volume may take less than this, never more. Measured with LVM 2.03.16 for
// extents of 4 KiB to 32 MiB and volumes up to 33 TiB.
func raidMetadataExtents(volumeBytes, extentSizeBytes int64) int64 {
	region := raidRegionBytes
	for volumeBytes/region > raidMaxRegions || (volumeBytes/region == raidMaxRegions && volumeBytes%region > 0) {
		region *= 2
	}
	// A volume smaller than a region gets a smaller region: one bit all the same.
	regions := max(volumeBytes/region, 1)
	bytes := raidSuperblockBytes + divideUp(regions, raidRegionsPerByte)
	units := divideUp(bytes, raidMetadataUnitBytes)
	return divideUp(units*raidMetadataUnitBytes, extentSizeBytes)
}
