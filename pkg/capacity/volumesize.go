package capacity

import (
	"errors"
	"fmt"
	"math"
)

// What can be wrong with a size; see [SizeError].
var (
	// ErrOutOfRange: the request is well-formed, and no volume can satisfy it
	// (CSI: OUT_OF_RANGE).
	ErrOutOfRange = errors.New("size out of range")
	// ErrInvalid: the request contradicts itself (CSI: INVALID_ARGUMENT).
	ErrInvalid = errors.New("invalid size")
)

// SizeError says which numbers do not go together.
type SizeError struct {
	Kind    error // ErrOutOfRange or ErrInvalid
	Problem string
}

// Error names the kind and the numbers.
func (e *SizeError) Error() string { return e.Kind.Error() + ": " + e.Problem }

// Unwrap makes errors.Is match the kind.
func (e *SizeError) Unwrap() error { return e.Kind }

// DefaultVolumeBytes is the size of a volume whose request names none: small
// enough for any pool, large enough for every file system.
const DefaultVolumeBytes int64 = 1 << 30

// maxVolumeExtents is the most extents a logical volume has: LVM counts them in 32 bits.
const maxVolumeExtents int64 = math.MaxUint32

// VolumeSize returns the bytes that a volume really gets: at least
// requiredBytes, at most limitBytes, what the file system needs, and whole
// extents (on each stripe). A zero bound is none, as in the CSI
// specification's CapacityRange; with no requiredBytes the size is
// [DefaultVolumeBytes], or what limitBytes has room for. extentSizeBytes is the
// volume group's, also for thin volumes, whose virtual size LVM rounds alike.
//
// Errors are *SizeError: [ErrOutOfRange] if no size fits the bounds,
// [ErrInvalid] if they are negative or the wrong way round, or if the shape
// does not go with the extent size.
func VolumeSize(shape Shape, fs Filesystem, requiredBytes, limitBytes, extentSizeBytes int64) (int64, error) {
	unit, err := shape.unit(extentSizeBytes)
	if err != nil {
		return 0, err
	}
	if err := checkBounds(requiredBytes, limitBytes); err != nil {
		return 0, err
	}
	most := maxVolumeBytes(unit, extentSizeBytes)
	if limitBytes > 0 {
		most = min(most, roundDown(limitBytes, unit))
	}
	least := fs.MinimumBytes()
	wanted := requiredBytes
	if wanted == 0 {
		wanted = max(min(DefaultVolumeBytes, most), 1)
	}
	size, ok := roundUp(max(wanted, least), unit)
	if ok && size <= most {
		return size, nil
	}
	return 0, outOfRange(fs, requiredBytes, limitBytes, unit, most)
}

// MinimumVolumeSize is the smallest volume of that shape and file system.
func MinimumVolumeSize(shape Shape, fs Filesystem, extentSizeBytes int64) (int64, error) {
	return VolumeSize(shape, fs, 1, 0, extentSizeBytes)
}

func outOfRange(fs Filesystem, required, limit, unit, most int64) error {
	problem := fmt.Sprintf("required %s, limit %s: sizes are multiples of %s", FormatBytes(required), FormatBytes(limit), FormatBytes(unit))
	if limit == 0 {
		problem = fmt.Sprintf("required %s: a volume has at most %s", FormatBytes(required), FormatBytes(most))
	}
	if least := fs.MinimumBytes(); least > 0 && limit > 0 && least > most {
		problem += fmt.Sprintf(", and %s needs at least %s", fs, FormatBytes(least))
	}
	return &SizeError{Kind: ErrOutOfRange, Problem: problem}
}

func checkBounds(required, limit int64) error {
	switch {
	case required < 0 || limit < 0:
		return &SizeError{Kind: ErrInvalid, Problem: fmt.Sprintf("required %d bytes, limit %d: negative", required, limit)}
	case limit > 0 && required > limit:
		return &SizeError{Kind: ErrInvalid, Problem: fmt.Sprintf("required %s are more than the limit of %s", FormatBytes(required), FormatBytes(limit))}
	}
	return nil
}

// unit is what the size of a volume of this shape is a multiple of.
func (s Shape) unit(extentSizeBytes int64) (int64, error) {
	if extentSizeBytes <= 0 {
		return 0, &SizeError{Kind: ErrInvalid, Problem: fmt.Sprintf("extent size %d bytes: not positive", extentSizeBytes)}
	}
	if s.StripeSizeBytes > extentSizeBytes {
		// LVM would silently take a smaller stripe.
		return 0, &SizeError{Kind: ErrInvalid, Problem: fmt.Sprintf("stripe size %s is more than the pool's extent size of %s", FormatBytes(s.StripeSizeBytes), FormatBytes(extentSizeBytes))}
	}
	if s.Layout != LayoutStriped {
		return extentSizeBytes, nil
	}
	unit, ok := multiply(extentSizeBytes, s.copiesOrStripes())
	if !ok {
		return 0, &SizeError{Kind: ErrOutOfRange, Problem: fmt.Sprintf("%d stripes of extents of %s", s.Stripes, FormatBytes(extentSizeBytes))}
	}
	return unit, nil
}

// copiesOrStripes is how many disks a striped or RAID1 volume lies on.
func (s Shape) copiesOrStripes() int64 {
	return int64(max(s.Stripes, 1))
}

func maxVolumeBytes(unit, extentSizeBytes int64) int64 {
	most, ok := multiply(maxVolumeExtents, extentSizeBytes)
	if !ok {
		most = math.MaxInt64
	}
	return roundDown(most, unit)
}
