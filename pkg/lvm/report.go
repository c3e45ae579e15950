package lvm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The sections of lvm fullreport, and the fields that this package reads.
type (
	fullReport []groupReport

	groupReport struct {
		VG    []vgRow    `json:"vg"`
		PV    []pvRow    `json:"pv"`
		LV    []lvRow    `json:"lv"`
		PVSeg []pvSegRow `json:"pvseg"`
		Seg   []segRow   `json:"seg"`
	}
	vgRow struct {
		Name        string `json:"vg_name"`
		UUID        string `json:"vg_uuid"`
		ExtentSize  string `json:"vg_extent_size"`
		ExtentCount string `json:"vg_extent_count"`
		FreeCount   string `json:"vg_free_count"`
		SeqNo       string `json:"vg_seqno"`
		MaxVolumes  string `json:"max_lv"`
		MDAFree     string `json:"vg_mda_free"`
		Tags        string `json:"vg_tags"`
	}
	pvRow struct {
		Name        string `json:"pv_name"`
		UUID        string `json:"pv_uuid"`
		Extents     string `json:"pv_pe_count"`
		Allocated   string `json:"pv_pe_alloc_count"`
		Missing     string `json:"pv_missing"`
		Allocatable string `json:"pv_allocatable"`
	}
	lvRow struct {
		Name            string `json:"lv_name"`
		UUID            string `json:"lv_uuid"`
		Attr            string `json:"lv_attr"`
		Size            string `json:"lv_size"`
		Parent          string `json:"lv_parent"`
		Pool            string `json:"pool_lv"`
		Origin          string `json:"origin"`
		Tags            string `json:"lv_tags"`
		Active          string `json:"lv_active"`
		Major           string `json:"lv_kernel_major"`
		Minor           string `json:"lv_kernel_minor"`
		DataPercent     string `json:"data_percent"`
		MetadataPercent string `json:"metadata_percent"`
		Health          string `json:"lv_health_status"`
		NeedsCheck      string `json:"lv_check_needed"`
		DeviceOpen      string `json:"lv_device_open"`
	}
	pvSegRow struct {
		PVName string `json:"pv_name"`
		PVUUID string `json:"pv_uuid"`
		Size   string `json:"pvseg_size"`
		LVName string `json:"lv_name"`
		Type   string `json:"segtype"`
	}
	segRow struct {
		LVUUID  string `json:"lv_uuid"`
		Type    string `json:"segtype"`
		Stripes string `json:"stripes"`
		Zero    string `json:"zero"`
	}
)

// fullReportCommand asks for all that [State] holds, in one command.
func fullReportCommand() Command {
	section := func(name, fields string) []string { return []string{"--configreport", name, "-o", fields} }
	args := []string{"--all"}
	args = append(args, section("vg", "vg_name,vg_uuid,vg_extent_size,vg_extent_count,vg_free_count,vg_seqno,max_lv,vg_mda_free,vg_tags")...)
	args = append(args, section("pv", "pv_name,pv_uuid,pv_pe_count,pv_pe_alloc_count,pv_missing,pv_allocatable")...)
	args = append(args, section("lv", "lv_name,lv_uuid,lv_attr,lv_size,lv_parent,pool_lv,origin,lv_tags,lv_active,"+
		"lv_kernel_major,lv_kernel_minor,data_percent,metadata_percent,lv_health_status,lv_check_needed,lv_device_open")...)
	args = append(args, section("pvseg", "pv_name,pv_uuid,pvseg_size,lv_name,segtype")...)
	args = append(args, section("seg", "lv_uuid,segtype,stripes,zero")...)
	return Command{Name: "fullreport", Args: args}
}

// parseFullReport reads the "report" part of lvm fullreport. Volume groups come
// sorted by name and UUID. The error matches [ErrReport] and then says nothing
// about what exists. devDir is where device nodes are, for the volumes' paths.
func parseFullReport(raw json.RawMessage, devDir string) ([]VolumeGroup, error) {
	if noReport(raw) {
		return nil, fmt.Errorf("%w: fullreport without a report", ErrReport)
	}
	var groups fullReport
	if err := json.Unmarshal(raw, &groups); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrReport, err)
	}
	var out []VolumeGroup
	for _, g := range groups {
		if len(g.VG) == 0 {
			continue // physical volumes that belong to no group
		}
		if len(g.VG) > 1 {
			return nil, fmt.Errorf("%w: %d volume groups in one section", ErrReport, len(g.VG))
		}
		vg, err := g.volumeGroup(devDir)
		if err != nil {
			return nil, err
		}
		out = append(out, vg)
	}
	slices.SortFunc(out, func(a, b VolumeGroup) int {
		return strings.Compare(a.Name+"\x00"+a.UUID, b.Name+"\x00"+b.UUID)
	})
	return out, nil
}

func (g groupReport) volumeGroup(devDir string) (VolumeGroup, error) {
	row := g.VG[0]
	if row.Name == "" || row.UUID == "" {
		return VolumeGroup{}, fmt.Errorf("%w: a volume group without name or UUID", ErrReport)
	}
	f := fields{}
	vg := VolumeGroup{
		Name: row.Name, UUID: row.UUID, Tags: list(row.Tags),
		ExtentSizeBytes:  f.count("vg_extent_size", row.ExtentSize),
		ExtentCount:      f.count("vg_extent_count", row.ExtentCount),
		FreeExtents:      f.count("vg_free_count", row.FreeCount),
		MetadataSequence: f.count("vg_seqno", row.SeqNo), MaxLogicalVolumes: f.countOr("max_lv", row.MaxVolumes, 0),
		MetadataFreeBytes: f.countOr("vg_mda_free", row.MDAFree, -1),
	}
	if f.err == nil && vg.ExtentSizeBytes == 0 {
		f.fail("vg_extent_size", row.ExtentSize)
	}
	vg.PhysicalVolumes = g.physicalVolumes(&f)
	vg.LogicalVolumes = g.logicalVolumes(&f, row.Name, devDir)
	if f.err != nil {
		return VolumeGroup{}, fmt.Errorf("volume group %s: %w", row.Name, f.err)
	}
	return vg, nil
}

func (g groupReport) physicalVolumes(f *fields) []PhysicalVolume {
	runs := g.largestFreeRuns(f)
	var out []PhysicalVolume
	for _, row := range g.PV {
		d := PhysicalVolume{
			Device: row.Name, UUID: row.UUID, Missing: row.Missing != "", Allocatable: row.Allocatable != "",
			ExtentCount: f.count("pv_pe_count", row.Extents), LargestFreeRun: runs[row.UUID],
		}
		d.FreeExtents = d.ExtentCount - f.count("pv_pe_alloc_count", row.Allocated)
		if d.FreeExtents < 0 {
			f.fail("pv_pe_alloc_count", row.Allocated)
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b PhysicalVolume) int { return strings.Compare(a.Device+a.UUID, b.Device+b.UUID) })
	return out
}

// largestFreeRuns returns, by the UUID of the physical volume, the longest run
// of free extents. LVM reports each run as one segment.
func (g groupReport) largestFreeRuns(f *fields) map[string]int64 {
	runs := map[string]int64{}
	for _, seg := range g.PVSeg {
		if seg.LVName == "" {
			runs[seg.PVUUID] = max(runs[seg.PVUUID], f.count("pvseg_size", seg.Size))
		}
	}
	return runs
}

// fields reads numbers and keeps the first error.
type fields struct{ err error }

func (f *fields) fail(name, value string) {
	if f.err == nil {
		f.err = fmt.Errorf("%w: field %s is %q", ErrReport, name, value)
	}
}

// count reads a number of bytes or extents, >= 0.
func (f *fields) count(name, value string) int64 {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		f.fail(name, value)
		return 0
	}
	return n
}

// countOr is count for a field that LVM may leave empty.
func (f *fields) countOr(name, value string, empty int64) int64 {
	if value == "" {
		return empty
	}
	return f.count(name, value)
}

// percent reads 0 to 100; empty (not known) is -1.
func (f *fields) percent(name, value string) float64 {
	if value == "" {
		return -1
	}
	p, err := strconv.ParseFloat(value, 64)
	if err != nil || !(p >= 0 && p <= 100) {
		f.fail(name, value)
		return -1
	}
	return p
}

// list splits a list of tags; LVM's tags have no commas in them.
func list(value string) []string {
	if value == "" {
		return nil
	}
	return strings.Split(value, ",")
}
