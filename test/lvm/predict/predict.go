// Package predict asks pkg/capacity what a volume will take, in the words of pkg/lvm.
package predict

import (
	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmtest"
)

// Footprint is what driver and scheduler reckon with for a raw block volume.
func Footprint(req lvm.CreateRequest, extentSizeBytes int64) (lvmtest.Prediction, error) {
	shape := Shape(req)
	size, err := capacity.VolumeSize(shape, capacity.FilesystemNone, req.SizeBytes, 0, extentSizeBytes)
	if err != nil {
		return lvmtest.Prediction{}, err
	}
	footprint, err := capacity.Footprint(shape, size, extentSizeBytes)
	return lvmtest.Prediction{SizeBytes: size, FootprintBytes: footprint}, err
}

// Shape is the layout of a request.
func Shape(req lvm.CreateRequest) capacity.Shape {
	layouts := map[string]capacity.Layout{
		lvm.SegLinear: capacity.LayoutLinear, lvm.SegStriped: capacity.LayoutStriped,
		lvm.SegRAID1: capacity.LayoutRAID1, lvm.SegThin: capacity.LayoutThin,
	}
	return capacity.Shape{Layout: layouts[req.SegmentType], Stripes: req.Stripes, StripeSizeBytes: req.StripeSizeBytes}
}

// Usage is what pkg/capacity is told of a volume group that holds nothing of ours.
func Usage(vg lvm.VolumeGroup) capacity.ThickUsage {
	usage := capacity.ThickUsage{ExtentSizeBytes: vg.ExtentSizeBytes}
	for _, d := range vg.PhysicalVolumes {
		if d.Allocatable && !d.Missing {
			usage.DiskFreeExtents = append(usage.DiskFreeExtents, d.FreeExtents)
		}
	}
	return usage
}
