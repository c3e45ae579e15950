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
	return &SizeError{Kind: ErrOutOfRange, Problem: fmt.Sprintf("%s volume of %d bytes takes more than a 64-bit number of bytes", shape.Layout, volumeBytes)}
}

// raidMetadataExtents is the extents that each copy of a RAID1 volume takes
// beside its data.
func raidMetadataExtents(volumeBytes, extentSizeBytes int64) int64 {
	_ = volumeBytes
	_ = extentSizeBytes
	return 1
}
