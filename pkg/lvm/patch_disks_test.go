package lvm

import (
	"testing"

	"pgregory.net/rapid"
)

// TestPatch_DisksAddUpToTheGroup: whoever sums the disks and whoever reads the
// group's figure must see the same free space after our own changes, before any
// report confirms them.
func TestPatch_DisksAddUpToTheGroup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &State{VolumeGroups: []VolumeGroup{{Name: "vg", ExtentSizeBytes: 4 << 20, ExtentCount: 300, FreeExtents: 300,
			PhysicalVolumes: []PhysicalVolume{
				{ExtentCount: 100, FreeExtents: 100, LargestFreeRun: 100, Allocatable: true},
				{ExtentCount: 200, FreeExtents: 200, LargestFreeRun: 200, Allocatable: true},
			}}}}
		before := s
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
			if rapid.Bool().Draw(t, "remove") {
				s = withoutVolume(s, Ref{VolumeGroup: "vg", Name: name})
			} else {
				extents := rapid.Int64Range(1, 90).Draw(t, "extents")
				s = withVolume(s, LogicalVolume{VolumeGroup: "vg", Name: name, FootprintExtents: extents})
			}
			vg := s.VolumeGroups[0]
			var free, used int64
			for _, disk := range vg.PhysicalVolumes {
				free += disk.FreeExtents
				if disk.FreeExtents < 0 || disk.FreeExtents > disk.ExtentCount || disk.LargestFreeRun > disk.FreeExtents {
					t.Fatalf("impossible disk %+v", disk)
				}
			}
			for _, lv := range vg.LogicalVolumes {
				used += lv.FootprintExtents
			}
			if free != vg.FreeExtents || free+used != vg.ExtentCount {
				t.Fatalf("disks have %d free, the group says %d, volumes have %d of %d", free, vg.FreeExtents, used, vg.ExtentCount)
			}
		}
		if before.VolumeGroups[0].PhysicalVolumes[0].FreeExtents != 100 {
			t.Fatal("an older state was changed")
		}
	})
}
