package lvm

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The files in testdata/fullreport are answers of lvm 2.03.16 to fullReportCommand.
func recorded(t testing.TB, name string) json.RawMessage {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "fullreport", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var a answer
	if err := json.Unmarshal(content, &a); err != nil {
		t.Fatal(err)
	}
	return a.Report
}

func parsed(t *testing.T, name string) *State {
	t.Helper()
	groups, err := parseFullReport(recorded(t, name), "/dev")
	if err != nil {
		t.Fatal(err)
	}
	return &State{VolumeGroups: groups}
}

// volume is what the tests below look at; the rest is in TestParseFullReport_Volume.
type volume struct {
	Name, Type string
	SizeMiB    int64
	Footprint  int64
	Stripes    int
}

func TestParseFullReport_VolumesAndFootprints(t *testing.T) {
	vg, _ := parsed(t, "mixed").VolumeGroup("vgA")
	var got []volume
	used := int64(0)
	for _, lv := range vg.LogicalVolumes {
		got = append(got, volume{lv.Name, lv.SegmentType, lv.SizeBytes / mib, lv.FootprintExtents, lv.Stripes})
		used += lv.FootprintExtents
	}
	want := []volume{
		{"gap2", "linear", 36, 9, 1},
		{"lin", "linear", 100, 25, 1},
		{"org", "linear", 40, 10, 1},
		{"r1", "raid1", 100, 2 * (25 + 1), 2},
		{"rp", "thin-pool", 40, 2*(10+1) + 1, 1}, // its data is a raid1
		{"snap", "snapshot", 12, 3, 1},
		{"str", "striped", 104, 26, 2},
		{"th", "thin", 1024, 0, 0},
		{"thsnap", "thin", 1024, 0, 0},
		{"tp", "thin-pool", 80, 20 + 1, 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
	const spare = 1 // [lvol0_pmspare] belongs to the volume group
	if used+spare+vg.FreeExtents != vg.ExtentCount {
		t.Errorf("%d used + %d spare + %d free is not %d", used, spare, vg.FreeExtents, vg.ExtentCount)
	}
}

func TestParseFullReport_Volume(t *testing.T) {
	tests := map[string]struct {
		report string
		want   LogicalVolume
	}{
		"linear with tags, inactive": {"mixed", LogicalVolume{
			VolumeGroup: "vgA", Name: "lin", SegmentType: "linear", SizeBytes: 100 * mib, FootprintExtents: 25, Stripes: 1,
			Tags: []string{"csi-local/name=lin", "csi-local/state=new"}, Path: "/dev/vgA/lin", Major: -1, Minor: -1,
			DataPercent: -1, MetadataPercent: -1,
		}},
		"thin pool": {"mixed", LogicalVolume{
			VolumeGroup: "vgA", Name: "tp", SegmentType: "thin-pool", SizeBytes: 80 * mib, FootprintExtents: 21, Stripes: 1,
			Active: true, Open: true, Path: "/dev/vgA/tp", DataPercent: 0, MetadataPercent: 10.94, Zeroes: true,
		}},
		"thin pool that does not zero": {"mixed", LogicalVolume{
			VolumeGroup: "vgB", Name: "tpnz", SegmentType: "thin-pool", SizeBytes: 30 * mib, FootprintExtents: 32, Stripes: 1,
			Active: true, Path: "/dev/vgB/tpnz", DataPercent: 0, MetadataPercent: 11.72,
		}},
		"thin snapshot": {"mixed", LogicalVolume{
			VolumeGroup: "vgA", Name: "thsnap", SegmentType: "thin", SizeBytes: 1024 * mib, ThinPool: "tp", Origin: "th",
			Path: "/dev/vgA/thsnap", Major: -1, Minor: -1, DataPercent: -1, MetadataPercent: -1,
		}},
		"thick snapshot": {"mixed", LogicalVolume{
			VolumeGroup: "vgA", Name: "snap", SegmentType: "snapshot", SizeBytes: 12 * mib, FootprintExtents: 3, Stripes: 1,
			Origin: "org", Active: true, Path: "/dev/vgA/snap", DataPercent: 0, MetadataPercent: -1,
		}},
		"open": {"open", LogicalVolume{
			VolumeGroup: "vgA", Name: "str", SegmentType: "striped", SizeBytes: 104 * mib, FootprintExtents: 26, Stripes: 2,
			Active: true, Open: true, Path: "/dev/vgA/str", DataPercent: -1, MetadataPercent: -1,
		}},
		"full thin pool": {"full", LogicalVolume{
			VolumeGroup: "vgB", Name: "full", SegmentType: "thin-pool", SizeBytes: 16 * mib, FootprintExtents: 5, Stripes: 1,
			Active: true, Open: true, Path: "/dev/vgB/full", DataPercent: 100, MetadataPercent: 11.13, Zeroes: true, Health: "out_of_data",
		}},
		"mirror with a disk missing": {"missing", LogicalVolume{
			VolumeGroup: "vgA", Name: "r1", SegmentType: "raid1", SizeBytes: 100 * mib, FootprintExtents: 52, Stripes: 2,
			Active: true, Path: "/dev/vgA/r1", DataPercent: -1, MetadataPercent: -1, Health: "partial",
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := parsed(t, test.report).LogicalVolume(test.want.Ref())
			if !ok {
				t.Fatalf("%s is not there", test.want.Ref())
			}
			if got.UUID == "" || got.Active != (got.Major > 0) {
				t.Errorf("UUID %q, active %v, device %d:%d", got.UUID, got.Active, got.Major, got.Minor)
			}
			got.UUID = ""
			if got.Active {
				got.Major, got.Minor = 0, 0
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestParseFullReport_Groups(t *testing.T) {
	groups := parsed(t, "missing").VolumeGroups
	for i := range groups {
		groups[i].LogicalVolumes, groups[i].UUID = nil, ""
		for j := range groups[i].PhysicalVolumes {
			groups[i].PhysicalVolumes[j].UUID = ""
		}
	}
	want := []VolumeGroup{
		{Name: "vgA", ExtentSizeBytes: 4 * mib, ExtentCount: 1048, FreeExtents: 878, MetadataSequence: 26, MetadataFreeBytes: -1, PhysicalVolumes: []PhysicalVolume{
			{Device: "/dev/ubdb", ExtentCount: 524, FreeExtents: 405, LargestFreeRun: 398, Allocatable: true},
			{Device: "[unknown]", ExtentCount: 524, FreeExtents: 473, LargestFreeRun: 473, Allocatable: true, Missing: true},
		}},
		{Name: "vgB", ExtentSizeBytes: mib, ExtentCount: 2099, FreeExtents: 2065, MetadataSequence: 4, MetadataFreeBytes: -1, Tags: []string{"vgtag"},
			PhysicalVolumes: []PhysicalVolume{
				{Device: "/dev/ubdd", ExtentCount: 2099, FreeExtents: 2065, LargestFreeRun: 2065, Allocatable: true},
			}},
	}
	if diff := cmp.Diff(want, groups); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestParseFullReport_NothingThere(t *testing.T) {
	if got := parsed(t, "none").VolumeGroups; len(got) != 0 {
		t.Errorf("got %v from a report of nothing", got)
	}
	if got := parsed(t, "empty").VolumeGroups; len(got) != 2 || len(got[0].LogicalVolumes) != 0 {
		t.Errorf("got %v from two empty groups", got)
	}
}

func TestParseFullReport_RoomForVolumes(t *testing.T) {
	text := strings.Replace(string(recorded(t, "empty")), `"vg_seqno":"1",`, `"vg_seqno":"1", "max_lv":"7", "vg_mda_free":"520704",`, 1)
	groups, err := parseFullReport(json.RawMessage(text), "/dev")
	if err != nil {
		t.Fatal(err)
	}
	if got := groups[len(groups)-1]; got.MaxLogicalVolumes != 7 || got.MetadataFreeBytes != 520704 {
		t.Errorf("at most %d volumes, %d bytes of metadata are free", got.MaxLogicalVolumes, got.MetadataFreeBytes)
	}
}

// A report that is no proper one must never be read as "there is nothing".
func TestParseFullReport_Unreadable(t *testing.T) {
	mixed := string(recorded(t, "mixed"))
	tests := map[string]string{
		"no report":             "",
		"null":                  "null",
		"an object":             "{}",
		"cut off":               mixed[:len(mixed)/2],
		"a number in words":     strings.Replace(mixed, `"1048"`, `"viele"`, 1),
		"a negative number":     strings.Replace(mixed, `"1048"`, `"-1048"`, 1),
		"a number too large":    strings.Replace(mixed, `"1048"`, `"99999999999999999999"`, 1),
		"a decimal comma":       strings.Replace(mixed, `"10.84"`, `"10,84"`, 1),
		"more than full":        strings.Replace(mixed, `"10.84"`, `"110.84"`, 1),
		"not a number":          strings.Replace(mixed, `"10.84"`, `"NaN"`, 1),
		"no extent size":        strings.Replace(mixed, `"vg_extent_size":"4194304"`, `"vg_extent_size":"0"`, 1),
		"a limit in words":      strings.Replace(mixed, `"vg_seqno":"26"`, `"vg_seqno":"26", "max_lv":"many"`, 1),
		"no UUID":               strings.Replace(mixed, `"vg_uuid":"XOf0kW-RKB6-wZkg-gVgs-3I0a-04Ng-fhHiUh"`, `"vg_uuid":""`, 1),
		"more used than exists": strings.Replace(mixed, `"pv_pe_alloc_count":"119"`, `"pv_pe_alloc_count":"525"`, 1),
	}
	for name, report := range tests {
		t.Run(name, func(t *testing.T) {
			if report == mixed {
				t.Fatal("the recorded report has changed")
			}
			if got, err := parseFullReport(json.RawMessage(report), "/dev"); !errors.Is(err, ErrReport) {
				t.Errorf("got %v, %v; want ErrReport", got, err)
			}
		})
	}
}

func FuzzParseFullReport(f *testing.F) {
	for _, name := range []string{"none", "empty", "mixed", "open", "full", "missing"} {
		f.Add([]byte(recorded(f, name)))
	}
	f.Add([]byte(`[{"vg":[{"vg_name":"a","vg_uuid":"b","vg_extent_size":"1"}],"lv":[{"lv_name":"[x]","lv_parent":"[x]"}],` +
		`"pvseg":[{"lv_name":"[x]","pvseg_size":"1"}]}]`))
	f.Fuzz(func(t *testing.T, report []byte) {
		groups, err := parseFullReport(report, "/dev")
		if err != nil {
			if !errors.Is(err, ErrReport) || groups != nil {
				t.Fatalf("got %v, %v", groups, err)
			}
			return
		}
		for _, vg := range groups {
			if vg.Name == "" || vg.UUID == "" || vg.ExtentSizeBytes <= 0 || vg.FreeExtents < 0 || vg.ExtentCount < 0 {
				t.Fatalf("accepted %+v", vg)
			}
			for _, lv := range vg.LogicalVolumes {
				if lv.Name == "" || hidden(lv.Name) || lv.SizeBytes < 0 || !(lv.DataPercent <= 100) {
					t.Fatalf("accepted %+v", lv)
				}
			}
		}
		again, err := parseFullReport(report, "/dev")
		if err != nil || !reflect.DeepEqual(groups, again) {
			t.Fatalf("second time %v, %v", again, err)
		}
	})
}
