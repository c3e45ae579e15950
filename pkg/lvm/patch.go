package lvm

import (
	"slices"
	"strings"
)

// What our own successful command did to the state, without asking LVM again.
// Each function returns a new state; the old one is not touched. Sums are right
// at once; what only LVM knows (UUIDs, the place on the disks) follows with the
// next report.

// withGroup returns a copy of s in which the volume group was changed by edit.
func withGroup(s *State, name string, edit func(*VolumeGroup)) *State {
	out := *s
	out.VolumeGroups = slices.Clone(s.VolumeGroups)
	for i := range out.VolumeGroups {
		if out.VolumeGroups[i].Name == name {
			out.VolumeGroups[i].LogicalVolumes = slices.Clone(out.VolumeGroups[i].LogicalVolumes)
			out.VolumeGroups[i].PhysicalVolumes = slices.Clone(out.VolumeGroups[i].PhysicalVolumes)
			edit(&out.VolumeGroups[i])
		}
	}
	return &out
}

// withVolume adds or replaces a volume and takes or gives back its extents.
func withVolume(s *State, lv LogicalVolume) *State {
	return withGroup(s, lv.VolumeGroup, func(vg *VolumeGroup) {
		i, found := slices.BinarySearchFunc(vg.LogicalVolumes, lv.Name, byName)
		if found {
			vg.free(vg.LogicalVolumes[i].FootprintExtents)
			vg.LogicalVolumes[i] = lv
		} else {
			vg.LogicalVolumes = slices.Insert(vg.LogicalVolumes, i, lv)
			vg.growMetadata(MetadataBytesPerVolume)
		}
		vg.take(lv.FootprintExtents)
	})
}

// withoutVolume removes a volume and gives its extents back.
func withoutVolume(s *State, ref Ref) *State {
	return withGroup(s, ref.VolumeGroup, func(vg *VolumeGroup) {
		i, found := slices.BinarySearchFunc(vg.LogicalVolumes, ref.Name, byName)
		if found {
			vg.free(vg.LogicalVolumes[i].FootprintExtents)
			vg.LogicalVolumes = slices.Delete(vg.LogicalVolumes, i, i+1)
			vg.growMetadata(-MetadataBytesPerVolume)
		}
	})
}

// take books n extents out of the volume group and its disks. On which disks they
// lie is a guess until the next report; the sums over the disks are not.
func (g *VolumeGroup) take(n int64) {
	g.FreeExtents = max(0, g.FreeExtents-n)
	for i := range g.PhysicalVolumes {
		disk := &g.PhysicalVolumes[i]
		if !disk.Allocatable || disk.Missing {
			continue
		}
		here := min(n, disk.FreeExtents)
		disk.FreeExtents -= here
		disk.LargestFreeRun = min(disk.LargestFreeRun, disk.FreeExtents)
		n -= here
	}
}

// growMetadata is a guess until the next report.
func (g *VolumeGroup) growMetadata(bytes int64) {
	if g.MetadataFreeBytes >= 0 {
		g.MetadataFreeBytes = max(0, g.MetadataFreeBytes-bytes)
	}
}

// free is the inverse of take. The longest free run is left as it was: it is
// never more than the truth.
func (g *VolumeGroup) free(n int64) {
	g.FreeExtents = min(g.ExtentCount, g.FreeExtents+n)
	for i := range g.PhysicalVolumes {
		disk := &g.PhysicalVolumes[i]
		if !disk.Allocatable || disk.Missing {
			continue
		}
		here := min(n, disk.ExtentCount-disk.FreeExtents)
		disk.FreeExtents += here
		n -= here
	}
}

func byName(lv LogicalVolume, name string) int { return strings.Compare(lv.Name, name) }

// created is the volume that a successful createCommand made.
func created(req CreateRequest, extents, extentSizeBytes int64, path string) LogicalVolume {
	lv := LogicalVolume{
		VolumeGroup: req.VolumeGroup, Name: req.Name, SegmentType: req.SegmentType,
		SizeBytes: extents * extentSizeBytes, FootprintExtents: extents, Stripes: 1,
		ThinPool: req.ThinPool, Tags: sortedTags(req.Tags), Path: path,
		Major: -1, Minor: -1, DataPercent: -1, MetadataPercent: -1,
	}
	switch req.SegmentType {
	case SegThin:
		lv.FootprintExtents, lv.Stripes = 0, 0
	case SegStriped:
		lv.Stripes = req.Stripes
	case SegRAID1:
		lv.Stripes = req.Stripes
		lv.FootprintExtents = raid1Footprint(extents, extentSizeBytes, req.Stripes)
	}
	return lv
}

// extended is lv after it was extended to extents.
func extended(lv LogicalVolume, extents, extentSizeBytes int64) LogicalVolume {
	more := extents - lv.SizeBytes/extentSizeBytes
	lv.SizeBytes = extents * extentSizeBytes
	switch lv.SegmentType {
	case SegThin:
	case SegRAID1:
		// The metadata stays as large as it was when the volume was made.
		lv.FootprintExtents += more * int64(lv.Stripes)
	default:
		lv.FootprintExtents = extents
	}
	return lv
}

// retagged is lv with tags added and removed; tags come sorted, as LVM shows them.
func retagged(lv LogicalVolume, add, remove []string) LogicalVolume {
	var tags []string
	for _, tag := range lv.Tags {
		if !slices.Contains(remove, tag) {
			tags = append(tags, tag)
		}
	}
	lv.Tags = sortedTags(append(tags, add...))
	return lv
}

func sortedTags(tags []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(tags)))
}
