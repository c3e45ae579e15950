package capacity

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/csi-local/csi-local/test/admin"
)

// ownTag is on every volume of the driver.
const ownTag = "csi-local/driver=" + driverName

// said is what LVM's report commands print of all volume groups.
type said struct {
	volumes  []lvRow
	segments []segmentRow
}

// lvRow is a line of lvs.
type lvRow struct {
	group, name, pool string
	sizeBytes         int64
	fillPercent       float64 // of data or metadata, whichever is fuller
	own               bool
}

// segmentRow is a line of pvs --segments: a piece of a disk. If it is free, volume is empty.
type segmentRow struct {
	group, disk, volume  string
	extents, extentBytes int64
	allocatable          bool
}

func ask(t *testing.T) said {
	t.Helper()
	var s said
	for _, row := range rows(t, "lvs", "-o", "vg_name,lv_name,pool_lv,lv_size,data_percent,metadata_percent,lv_tags") {
		s.volumes = append(s.volumes, lvRow{
			group: row[0], name: row[1], pool: row[2], sizeBytes: integer(t, row[3]), fillPercent: max(percent(t, row[4]), percent(t, row[5])),
			own: slices.Contains(strings.Split(row[6], ","), ownTag),
		})
	}
	for _, row := range rows(t, "pvs", "--segments", "-o", "vg_name,pv_name,lv_name,pvseg_size,vg_extent_size,pv_allocatable") {
		s.segments = append(s.segments, segmentRow{
			group: row[0], disk: row[1], volume: strings.Trim(row[2], "[]"), extents: integer(t, row[3]), extentBytes: integer(t, row[4]),
			allocatable: row[5] != "",
		})
	}
	return s
}

func rows(t *testing.T, args ...string) [][]string {
	t.Helper()
	out := admin.Run(t, append(args, "--noheadings", "--nosuffix", "--units", "b", "--separator", ";")...)
	var all [][]string
	for line := range strings.Lines(out) {
		all = append(all, strings.Split(strings.TrimSpace(line), ";"))
	}
	return all
}

func integer(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// percent is 0 for volumes that have none.
func percent(t *testing.T, text string) float64 {
	t.Helper()
	if text == "" {
		return 0
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// own tells whether a piece of a disk belongs to a volume of the driver, or to a mirror's part.
func (s said) own(segment segmentRow) bool {
	name := segment.volume
	for _, part := range []string{"_rimage_", "_rmeta_"} {
		name, _, _ = strings.Cut(name, part)
	}
	return slices.ContainsFunc(s.volumes, func(v lvRow) bool { return v.own && v.group == segment.group && v.name == name })
}

// ownBytes are what the driver's volumes take from the disks of a group.
func (s said) ownBytes(group string) (sum int64) {
	for _, segment := range s.segments {
		if segment.group == group && s.own(segment) {
			sum += segment.extents * segment.extentBytes
		}
	}
	return sum
}

// freeBytes are what may be allocated, by disk.
func (s said) freeBytes(group string) map[string]int64 {
	free := map[string]int64{}
	for _, segment := range s.segments {
		if segment.group == group && segment.volume == "" && segment.allocatable {
			free[segment.disk] += segment.extents * segment.extentBytes
		}
	}
	return free
}

// thickFigure is what a thick pool should publish.
func (s said) thickFigure(group string, reserveBytes int64) int64 {
	return s.ownBytes(group) + sum(s.freeBytes(group)) - reserveBytes
}

func sum(byDisk map[string]int64) (total int64) {
	for _, bytes := range byDisk {
		total += bytes
	}
	return total
}

// thinRules are what the pools file says of a thin pool.
type thinRules struct {
	ratio        float64
	watermark    int64
	reserveBytes int64
}

// thinFigure is what a thin pool should publish: what docs/pools.md says.
func (s said) thinFigure(group, pool string, rules thinRules) int64 {
	var data lvRow
	var ours, others int64
	for _, v := range s.volumes {
		switch {
		case v.group != group:
		case v.name == pool:
			data = v
		case v.pool != pool:
		case v.own:
			ours += v.sizeBytes
		default:
			others += v.sizeBytes
		}
	}
	promised := int64(float64(data.sizeBytes-rules.reserveBytes)*rules.ratio) - others
	headroom := promised
	if left := int64(math.Floor(float64(rules.watermark) - data.fillPercent)); left < 10 {
		headroom = promised / 10 * max(left, 0)
	}
	return min(promised, ours+headroom)
}
