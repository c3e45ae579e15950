package onfake

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/csi-local/csi-local/pkg/blockdev"
	"github.com/csi-local/csi-local/pkg/driver"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
	"github.com/csi-local/csi-local/pkg/lvm/lvmtest"
	"github.com/csi-local/csi-local/test/lvm/predict"
)

var (
	_ driver.Volumes = (*lvm.Client)(nil)
	_ driver.Volumes = (*lvmfake.LVM)(nil)
	_ driver.Devices = blockdev.Device{}
	_ driver.Devices = (*lvmfake.Devices)(nil)
	_ lvmtest.Client = (*lvm.Client)(nil)
	_ lvmfake.Files  = blockdev.Device{}
)

func newLVM(extentSizeBytes int64, disks ...int64) (*lvmfake.LVM, error) {
	g := lvmfake.Group{Name: "vg", ExtentSizeBytes: extentSizeBytes}
	for _, size := range disks {
		g.Disks = append(g.Disks, lvmfake.Disk{SizeBytes: size})
	}
	return lvmfake.New(lvmfake.Options{Groups: []lvmfake.Group{g}})
}

func TestFootprint_EqualsWhatTheFakeTakes(t *testing.T) {
	const tib = 1 << 40
	for _, extent := range []int64{4 << 10, 64 << 10, 1 << 20, 4 << 20, 32 << 20} {
		t.Run(fmt.Sprint(extent), func(t *testing.T) {
			l, err := newLVM(extent, tib, tib, tib, tib, tib)
			if err != nil {
				t.Fatal(err)
			}
			lvmtest.Footprints(t, l, "vg", 5, 200, tib/2, predict.Footprint)
		})
	}
}

func TestMaximumVolumeSize_CanBeMade(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const extent = 4 << 20
		var disks []int64
		for _, extents := range rapid.SliceOfN(rapid.Int64Range(0, 100), 1, 5).Draw(t, "disks") {
			disks = append(disks, extents*extent)
		}
		l, err := newLVM(extent, disks...)
		if err != nil {
			t.Fatal(err)
		}
		req := lvm.CreateRequest{Ref: lvm.Ref{VolumeGroup: "vg", Name: "v"}}
		req.SegmentType = rapid.SampledFrom([]string{lvm.SegLinear, lvm.SegStriped, lvm.SegRAID1}).Draw(t, "type")
		if req.SegmentType != lvm.SegLinear {
			req.Stripes = rapid.IntRange(2, 4).Draw(t, "stripes")
		}
		state, err := l.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		vg, _ := state.VolumeGroup("vg")
		req.SizeBytes = predict.Usage(vg).MaximumVolumeSize(predict.Shape(req))
		if req.SizeBytes > 0 {
			if _, err := l.Create(t.Context(), req); err != nil {
				t.Fatalf("the largest volume, %+v, cannot be made: %v", req, err)
			}
			return
		}
		req.SizeBytes = 1
		if _, err := l.Create(t.Context(), req); !errors.Is(err, lvm.ErrNoSpace) {
			t.Fatalf("no volume was said to fit, %+v did: %v", req, err)
		}
	})
}
