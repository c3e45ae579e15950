package lvm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmtest"
	"github.com/csi-local/csi-local/test/lvm/predict"
)

func TestFootprint_EqualsWhatLVMTakes(t *testing.T) {
	for _, group := range []struct {
		extent       int64
		disks, count int
	}{
		{4 * mib, 4, 30},
		{64 << 10, 3, 20},
		{4 << 10, 3, 10}, // metadata of mirrors takes several extents
		{32 * mib, 2, 10},
	} {
		t.Run(fmt.Sprint(group.extent), func(t *testing.T) {
			r := lvmtest.NewReal(t, disks(), lvm.Options{})
			r.AddGroup(t, "vgA", group.extent, group.disks)
			c := r.NewClient(t, lvm.VolumeGroupSelector{Name: "vgA"})
			lvmtest.Footprints(t, c, "vgA", group.disks, group.count, 400*mib, predict.Footprint)
		})
	}
}

// A mirror's metadata has a bit for each region, and LVM makes regions larger when
// there would be too many of them.
func TestFootprint_OfHugeMirrors(t *testing.T) {
	const tib = 1 << 40
	var loops []string
	for i := range 2 {
		file := filepath.Join("/dev/shm", fmt.Sprint("huge", i))
		f, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(200 * tib); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		r := lvmtest.NewReal(t, nil, lvm.Options{})
		loop := strings.TrimSpace(r.Command(t, "losetup", "--show", "-f", file))
		t.Cleanup(func() {
			if out, err := r.Try("losetup", "-d", loop); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			if err := os.Remove(file); err != nil {
				t.Error(err)
			}
		})
		loops = append(loops, loop)
	}
	for _, extent := range []int64{4 * mib, 128 << 10} {
		t.Run(fmt.Sprint(extent), func(t *testing.T) {
			r := lvmtest.NewReal(t, loops, lvm.Options{})
			r.AddGroup(t, "vgA", extent, 2)
			c := r.NewClient(t, lvm.VolumeGroupSelector{Name: "vgA"})
			for _, size := range []int64{3 * tib, 4 * tib, 5 * tib, 9 * tib, 66 * tib, 67 * tib, 68 * tib, 150 * tib} {
				req := lvm.CreateRequest{
					Ref: lvm.Ref{VolumeGroup: "vgA", Name: "v"}, SegmentType: lvm.SegRAID1, Stripes: 2, SizeBytes: size,
				}
				lvmtest.Footprint(t, c, req, size+20*tib, predict.Footprint)
			}
		})
	}
}
