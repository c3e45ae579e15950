package lvm

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// logicalVolumes returns the visible volumes, hidden parts summed up in them.
func (g groupReport) logicalVolumes(f *fields, vgName, devDir string) []LogicalVolume {
	footprints := g.footprints(f)
	segments := map[string]segRow{} // by the volume's UUID; the first segment
	for _, seg := range g.Seg {
		if _, seen := segments[seg.LVUUID]; !seen {
			segments[seg.LVUUID] = seg
		}
	}
	var out []LogicalVolume
	for _, row := range g.LV {
		if hidden(row.Name) {
			continue
		}
		out = append(out, row.logicalVolume(f, vgName, devDir, segments[row.UUID], footprints[row.Name]))
	}
	slices.SortFunc(out, func(a, b LogicalVolume) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (row lvRow) logicalVolume(f *fields, vgName, devDir string, seg segRow, footprint int64) LogicalVolume {
	if row.Name == "" || row.UUID == "" {
		f.fail("lv_name", row.Name)
	}
	lv := LogicalVolume{
		VolumeGroup: vgName, Name: row.Name, UUID: row.UUID,
		SegmentType: seg.Type, SizeBytes: f.count("lv_size", row.Size), FootprintExtents: footprint,
		ThinPool: strip(row.Pool), Origin: strip(row.Origin), Tags: list(row.Tags),
		Active: row.Active != "", Open: row.DeviceOpen == "open",
		Path:  filepath.Join(devDir, vgName, row.Name),
		Major: -1, Minor: -1, DataPercent: -1, MetadataPercent: -1,
		Health: row.Health, NeedsCheck: row.NeedsCheck != "" && row.NeedsCheck != "unknown",
	}
	if row.Attr != "" && (row.Attr[0] == 's' || row.Attr[0] == 'S') {
		// LVM shows the segment type of the space that the snapshot takes.
		lv.SegmentType = SegSnapshot
	}
	if n, err := strconv.Atoi(seg.Stripes); err == nil {
		lv.Stripes = n
	}
	if lv.Active {
		lv.Major, lv.Minor = kernelNumber(f, row)
	}
	switch lv.SegmentType {
	case SegThinPool:
		lv.Zeroes = seg.Zero == "zero"
		lv.MetadataPercent = f.percent("metadata_percent", row.MetadataPercent)
		lv.DataPercent = f.percent("data_percent", row.DataPercent)
	case SegThin, SegSnapshot:
		lv.DataPercent = f.percent("data_percent", row.DataPercent)
	}
	return lv
}

func kernelNumber(f *fields, row lvRow) (major, minor int) {
	major, errMajor := strconv.Atoi(row.Major)
	minor, errMinor := strconv.Atoi(row.Minor)
	if errMajor != nil || errMinor != nil || major < -1 || minor < -1 {
		f.fail("lv_kernel_major:lv_kernel_minor", row.Major+":"+row.Minor)
		return -1, -1
	}
	return major, minor
}

// footprints sums, for each volume by its name, the extents of the volume
// itself and of all its hidden parts, however deep they are nested.
func (g groupReport) footprints(f *fields) map[string]int64 {
	parent := map[string]string{}
	for _, row := range g.LV {
		if hidden(row.Name) {
			parent[strip(row.Name)] = strip(row.Parent)
		}
	}
	sums := map[string]int64{}
	for _, seg := range g.PVSeg {
		if seg.LVName == "" {
			continue
		}
		owner := strip(seg.LVName)
		// The depth is bounded by the number of volumes; a report with a
		// circle in it must not hang us.
		for range len(g.LV) {
			up, isPart := parent[owner]
			if !isPart || up == "" {
				break
			}
			owner = up
		}
		sums[owner] += f.count("pvseg_size", seg.Size)
	}
	return sums
}

// hidden volumes are shown in brackets.
func hidden(name string) bool { return strings.HasPrefix(name, "[") }

func strip(name string) string { return strings.TrimSuffix(strings.TrimPrefix(name, "["), "]") }
