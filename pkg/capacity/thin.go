package capacity

import "math"

// ThinUsage is what a thin pool holds. Amounts are bytes and not negative.
type ThinUsage struct {
	// ExtentSizeBytes is the volume group's; virtual sizes are multiples of it.
	ExtentSizeBytes int64
	// DataBytes is the size of the pool's data device.
	DataBytes int64
	// OwnVirtualBytes are the virtual sizes of this driver's volumes, orphans
	// not among them.
	OwnVirtualBytes int64
	// OtherVirtualBytes are the virtual sizes of all other volumes in the pool:
	// orphans, snapshots, foreign ones. What they may still write is lost to us.
	OtherVirtualBytes int64
	// DataPercent and MetadataPercent are how full the pool is, 0 to 100;
	// anything else (LVM says -1 for a pool that is not active) means unknown.
	DataPercent     float64
	MetadataPercent float64
	// ReserveBytes of the data device are kept back by the administrator.
	ReserveBytes int64
	// OverprovisionRatio is how many virtual bytes are promised per byte of the
	// data device; see [ScaleBytes].
	OverprovisionRatio float64
	// DataWatermarkPercent and MetadataWatermarkPercent (1 to 100) are where
	// the pool stops taking new volumes.
	DataWatermarkPercent     int
	MetadataWatermarkPercent int
}

// taperPoints is how many percentage points below a watermark the headroom
// begins to shrink. Below that it does not bind at all, so that the published
// figure rests while volumes come and go.
const taperPoints = 10

// Allocatable is what this driver's volumes may occupy in total, in virtual
// bytes: (data size − reserve) × ratio less what others have, but never more
// than the volumes that exist and the headroom. The headroom is the whole pool
// until ten percentage points below a watermark; from there it shrinks by a
// tenth with each point, to 0 at the watermark (a watermark below ten: from an
// empty pool on). While the pool's fill is unknown the headroom is 0.
//
// Outside that range creating or deleting a volume of ours does not change it.
func (u ThinUsage) Allocatable() int64 {
	promised := max(ScaleBytes(max(u.DataBytes-u.ReserveBytes, 0), u.OverprovisionRatio)-u.OtherVirtualBytes, 0)
	headroom := min(headroomBelow(promised, u.DataPercent, u.DataWatermarkPercent),
		headroomBelow(promised, u.MetadataPercent, u.MetadataWatermarkPercent))
	return min(promised, saturatingAdd(u.OwnVirtualBytes, headroom))
}

// headroomBelow goes down in whole steps, so that a slowly filling pool makes
// ten changes of the published figure and not one with each write.
func headroomBelow(promised int64, percent float64, watermark int) int64 {
	if !(percent >= 0 && percent <= 100) { // also false for NaN
		return 0
	}
	steps := int64(min(taperPoints, watermark))
	left := int64(math.Floor(float64(watermark) - percent))
	switch {
	case left <= 0:
		return 0
	case left >= steps:
		return promised
	default:
		return saturatingMultiply(promised/steps, left)
	}
}

// Allocated is what this driver's volumes occupy now, in virtual bytes.
func (u ThinUsage) Allocated() int64 { return u.OwnVirtualBytes }

// Available is what new volumes may occupy: allocatable − allocated, never below 0.
func (u ThinUsage) Available() int64 { return max(u.Allocatable()-u.Allocated(), 0) }

// MaximumVolumeSize is the virtual size of the largest volume that can be made
// now, 0 if none can.
func (u ThinUsage) MaximumVolumeSize() int64 {
	if u.ExtentSizeBytes <= 0 {
		return 0
	}
	return roundDown(min(u.Available(), maxVolumeBytes(u.ExtentSizeBytes, u.ExtentSizeBytes)), u.ExtentSizeBytes)
}
