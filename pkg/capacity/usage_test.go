package capacity

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestThickUsage(t *testing.T) {
	for name, c := range map[string]struct {
		usage                             ThickUsage
		allocatable, allocated, available int64
	}{
		"empty pool":              {ThickUsage{ExtentSizeBytes: 4 * mib, DiskFreeExtents: []int64{100, 50}}, 600 * mib, 0, 600 * mib},
		"with volumes":            {ThickUsage{ExtentSizeBytes: 4 * mib, DiskFreeExtents: []int64{100, 25}, OwnExtents: 25}, 600 * mib, 100 * mib, 500 * mib},
		"with reserve":            {ThickUsage{ExtentSizeBytes: 4 * mib, DiskFreeExtents: []int64{150}, ReserveBytes: 100*mib + 1}, 500*mib - 1, 0, 500*mib - 1},
		"reserve above free":      {ThickUsage{ExtentSizeBytes: 4 * mib, DiskFreeExtents: []int64{10}, OwnExtents: 20, ReserveBytes: 60 * mib}, 60 * mib, 80 * mib, 0},
		"reserve above the pool":  {ThickUsage{ExtentSizeBytes: 4 * mib, DiskFreeExtents: []int64{10}, ReserveBytes: tib}, 0, 0, 0},
		"full":                    {ThickUsage{ExtentSizeBytes: 4 * mib, DiskFreeExtents: []int64{0, 0}, OwnExtents: 10}, 40 * mib, 40 * mib, 0},
		"nothing known":           {ThickUsage{}, 0, 0, 0},
		"beyond the number range": {ThickUsage{ExtentSizeBytes: 4 * gib, DiskFreeExtents: []int64{math.MaxInt64, 5}, OwnExtents: 5}, math.MaxInt64, 20 * gib, math.MaxInt64 - 20*gib},
	} {
		t.Run(name, func(t *testing.T) {
			got := [3]int64{c.usage.Allocatable(), c.usage.Allocated(), c.usage.Available()}
			if want := [3]int64{c.allocatable, c.allocated, c.available}; got != want {
				t.Errorf("allocatable, allocated, available: got %v, want %v", got, want)
			}
		})
	}
}

// The largest striped volume LVM 2.03.16 made on disks with that many free
// extents (found by bisection in the throwaway kernel), and the largest RAID1
// volume it made with --alloc cling, which keeps each copy on its own disk.
func TestThickUsage_MaximumVolumeSize_AsMeasured(t *testing.T) {
	for _, c := range []struct {
		free          []int64
		linear        int64
		two, three    int64 // striped
		mirror, third int64 // raid1 of two and three
	}{
		{[]int64{40, 40, 40}, 120, 80, 120, 39, 39},
		{[]int64{60, 40, 40}, 140, 120, 120, 39, 39},
		{[]int64{20, 100, 20}, 140, 80, 60, 19, 19},
		{[]int64{100, 30, 20, 10}, 160, 120, 90, 29, 19},
		{[]int64{50, 50, 20, 20}, 140, 140, 120, 49, 19},
		{[]int64{30, 30, 30, 30, 90}, 210, 180, 180, 29, 29},
		{[]int64{1, 1}, 2, 2, 0, 0, 0},
		{[]int64{2, 2}, 4, 4, 0, 1, 0},
		{[]int64{100}, 100, 0, 0, 0, 0},
		{[]int64{100, 0}, 100, 0, 0, 0, 0},
		{nil, 0, 0, 0, 0, 0},
	} {
		u := ThickUsage{ExtentSizeBytes: 4 * mib, DiskFreeExtents: slices.Clone(c.free)}
		for _, s := range []struct {
			shape Shape
			want  int64
		}{{Shape{}, c.linear}, {striped(2), c.two}, {striped(3), c.three}, {raid1(2), c.mirror}, {raid1(3), c.third}} {
			if got := u.MaximumVolumeSize(s.shape) / u.ExtentSizeBytes; got != s.want {
				t.Errorf("free %v, %s %d: got %d extents, want %d", c.free, s.shape.Layout, s.shape.Stripes, got, s.want)
			}
		}
		if !slices.Equal(u.DiskFreeExtents, c.free) {
			t.Errorf("the caller's slice was changed: %v", u.DiskFreeExtents)
		}
	}
}

func TestThickUsage_MaximumVolumeSize_KeepsTheReserve(t *testing.T) {
	u := ThickUsage{ExtentSizeBytes: 4 * mib, DiskFreeExtents: []int64{100, 100}, ReserveBytes: 400*mib + 1}
	for _, c := range []struct {
		shape Shape
		want  int64
	}{
		{Shape{}, 99 * 4 * mib}, {striped(2), 98 * 4 * mib}, {raid1(2), 48 * 4 * mib},
	} {
		if got := u.MaximumVolumeSize(c.shape); got != c.want {
			t.Errorf("%s: got %d, want %d", c.shape.Layout, got, c.want)
		}
	}
}

// Creating and deleting volumes of ours moves extents between two terms of the
// published sum and leaves the sum alone.
func TestThickUsage_OwnVolumesDoNotMoveAllocatable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := drawThick(t)
		before := u.Allocatable()
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			disk := rapid.IntRange(0, len(u.DiskFreeExtents)-1).Draw(t, "disk")
			if rapid.Bool().Draw(t, "create") {
				n := rapid.Int64Range(0, u.DiskFreeExtents[disk]).Draw(t, "extents")
				u.DiskFreeExtents[disk] -= n
				u.OwnExtents += n
			} else {
				n := rapid.Int64Range(0, u.OwnExtents).Draw(t, "extents")
				u.DiskFreeExtents[disk] += n
				u.OwnExtents -= n
			}
			if got := u.Allocatable(); got != before {
				t.Fatalf("allocatable went from %d to %d", before, got)
			}
			if got, want := u.Available(), max(before-u.Allocated(), 0); got != want {
				t.Fatalf("available %d, want %d", got, want)
			}
		}
	})
}

// Foreign volumes, orphans and reserve only ever take away.
func TestThickUsage_OthersShrinkAllocatable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := drawThick(t)
		less := u
		less.DiskFreeExtents = slices.Clone(u.DiskFreeExtents)
		disk := rapid.IntRange(0, len(u.DiskFreeExtents)-1).Draw(t, "disk")
		less.DiskFreeExtents[disk] -= rapid.Int64Range(0, u.DiskFreeExtents[disk]).Draw(t, "foreign")
		less.OwnExtents -= rapid.Int64Range(0, u.OwnExtents).Draw(t, "orphans")
		less.ReserveBytes += rapid.Int64Range(0, tib).Draw(t, "reserve")
		if less.Allocatable() > u.Allocatable() || less.Allocatable() < 0 || less.Available() < 0 {
			t.Fatalf("%+v: %d; %+v: %d", u, u.Allocatable(), less, less.Allocatable())
		}
	})
}

// What is said to fit has a footprint that fits: in the pool, and on the disks.
func TestThickUsage_MaximumVolumeSizeFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u, shape := drawThick(t), drawShape(t)
		size := u.MaximumVolumeSize(shape)
		footprint, err := Footprint(shape, size, u.ExtentSizeBytes)
		if err != nil || footprint > u.Available() {
			t.Fatalf("size %d: footprint %d of %d available, %v", size, footprint, u.Available(), err)
		}
		if size > 0 {
			if again, err := VolumeSize(shape, FilesystemNone, size, size, u.ExtentSizeBytes); err != nil || again != size {
				t.Fatalf("size %d is refused: %v", size, err)
			}
		}
		if shape.Layout == LayoutStriped || shape.Layout == LayoutRAID1 {
			with := slices.DeleteFunc(slices.Clone(u.DiskFreeExtents), func(free int64) bool { return free == 0 })
			if len(with) < shape.Stripes && size > 0 {
				t.Fatalf("%d disks with free extents, size %d", len(with), size)
			}
		}
	})
}

func drawThick(t *rapid.T) ThickUsage {
	return ThickUsage{
		ExtentSizeBytes: kib << rapid.IntRange(2, 25).Draw(t, "extent"),
		DiskFreeExtents: rapid.SliceOfN(rapid.Int64Range(0, 100_000), 1, 10).Draw(t, "free"),
		OwnExtents:      rapid.Int64Range(0, 100_000).Draw(t, "own"),
		ReserveBytes:    rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, tib)).Draw(t, "reserve"),
	}
}

func TestThinUsage(t *testing.T) {
	base := ThinUsage{ExtentSizeBytes: 4 * mib, DataBytes: 1000 * mib, OverprovisionRatio: 1, DataWatermarkPercent: 90, MetadataWatermarkPercent: 90}
	with := func(change func(*ThinUsage)) ThinUsage {
		u := base
		change(&u)
		return u
	}
	for name, c := range map[string]struct {
		usage                             ThinUsage
		allocatable, available, maxVolume int64
	}{
		"empty":             {base, 1000 * mib, 1000 * mib, 1000 * mib},
		"with volumes":      {with(func(u *ThinUsage) { u.OwnVirtualBytes = 300 * mib }), 1000 * mib, 700 * mib, 700 * mib},
		"overprovisioned":   {with(func(u *ThinUsage) { u.OverprovisionRatio = 2.5; u.OwnVirtualBytes = 300 * mib }), 2500 * mib, 2200 * mib, 2200 * mib},
		"reserve":           {with(func(u *ThinUsage) { u.ReserveBytes = 100 * mib; u.OverprovisionRatio = 2 }), 1800 * mib, 1800 * mib, 1800 * mib},
		"others":            {with(func(u *ThinUsage) { u.OtherVirtualBytes = 300 * mib }), 700 * mib, 700 * mib, 700 * mib},
		"others above all":  {with(func(u *ThinUsage) { u.OtherVirtualBytes = 3000 * mib; u.OwnVirtualBytes = 10 * mib }), 0, 0, 0},
		"reserve above all": {with(func(u *ThinUsage) { u.ReserveBytes = tib }), 0, 0, 0},
		"far from the mark": {with(func(u *ThinUsage) { u.DataPercent = 80 }), 1000 * mib, 1000 * mib, 1000 * mib},
		"nearing":           {with(func(u *ThinUsage) { u.DataPercent = 80.01; u.OwnVirtualBytes = 50 * mib }), 950 * mib, 900 * mib, 900 * mib},
		"half-way":          {with(func(u *ThinUsage) { u.DataPercent = 85 }), 500 * mib, 500 * mib, 500 * mib},
		"half-way with volumes": {with(func(u *ThinUsage) { u.DataPercent = 85; u.OwnVirtualBytes = 850 * mib }), 1000 * mib, 150 * mib,
			148 * mib},
		"at the mark":             {with(func(u *ThinUsage) { u.DataPercent = 90; u.OwnVirtualBytes = 850 * mib }), 850 * mib, 0, 0},
		"above the mark":          {with(func(u *ThinUsage) { u.DataPercent = 100; u.OwnVirtualBytes = 850 * mib }), 850 * mib, 0, 0},
		"metadata at the mark":    {with(func(u *ThinUsage) { u.MetadataPercent = 90; u.OwnVirtualBytes = 850 * mib }), 850 * mib, 0, 0},
		"metadata half-way":       {with(func(u *ThinUsage) { u.MetadataPercent = 85 }), 500 * mib, 500 * mib, 500 * mib},
		"mark at 100":             {with(func(u *ThinUsage) { u.DataPercent = 90; u.DataWatermarkPercent = 100 }), 1000 * mib, 1000 * mib, 1000 * mib},
		"low mark":                {with(func(u *ThinUsage) { u.DataWatermarkPercent = 5 }), 1000 * mib, 1000 * mib, 1000 * mib},
		"low mark, nearing":       {with(func(u *ThinUsage) { u.DataWatermarkPercent = 5; u.DataPercent = 1 }), 800 * mib, 800 * mib, 800 * mib},
		"fill not known":          {with(func(u *ThinUsage) { u.DataPercent = -1; u.OwnVirtualBytes = 10 * mib }), 10 * mib, 0, 0},
		"metadata fill not known": {with(func(u *ThinUsage) { u.MetadataPercent = -1 }), 0, 0, 0},
		"fill is no number":       {with(func(u *ThinUsage) { u.DataPercent = math.NaN() }), 0, 0, 0},
		"fill above 100":          {with(func(u *ThinUsage) { u.DataPercent = math.Inf(1) }), 0, 0, 0},
		"more volumes than ratio": {with(func(u *ThinUsage) { u.OwnVirtualBytes = 1200 * mib }), 1000 * mib, 0, 0},
		"nothing known":           {ThinUsage{}, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := [3]int64{c.usage.Allocatable(), c.usage.Available(), c.usage.MaximumVolumeSize()}
			if want := [3]int64{c.allocatable, c.available, c.maxVolume}; got != want {
				t.Errorf("allocatable, available, maximum: got %v, want %v", got, want)
			}
			if got := c.usage.Allocated(); got != c.usage.OwnVirtualBytes {
				t.Errorf("allocated: got %d", got)
			}
		})
	}
}

// Away from the watermarks a volume of ours does not move the published figure,
// whatever is written to it.
func TestThinUsage_OwnVolumesDoNotMoveAllocatable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := drawThin(t)
		u.DataWatermarkPercent = rapid.IntRange(taperPoints, 100).Draw(t, "data mark")
		u.MetadataWatermarkPercent = rapid.IntRange(taperPoints, 100).Draw(t, "metadata mark")
		u.DataPercent, u.MetadataPercent = 0, 0
		before := u.Allocatable()
		u.OwnVirtualBytes = rapid.Int64Range(0, 64*tib).Draw(t, "own")
		u.DataPercent = rapid.Float64Range(0, float64(u.DataWatermarkPercent-taperPoints)).Draw(t, "data")
		u.MetadataPercent = rapid.Float64Range(0, float64(u.MetadataWatermarkPercent-taperPoints)).Draw(t, "metadata")
		if got := u.Allocatable(); got != before {
			t.Fatalf("allocatable went from %d to %d", before, got)
		}
	})
}

// Everything that makes a pool worse makes allocatable smaller or leaves it.
func TestThinUsage_Monotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := drawThin(t)
		worse := u
		worse.DataBytes -= rapid.Int64Range(0, u.DataBytes).Draw(t, "smaller")
		worse.ReserveBytes += rapid.Int64Range(0, tib).Draw(t, "reserve")
		worse.OtherVirtualBytes += rapid.Int64Range(0, tib).Draw(t, "others")
		worse.DataPercent = rapid.Float64Range(u.DataPercent, 100).Draw(t, "fuller")
		worse.MetadataPercent = rapid.Float64Range(u.MetadataPercent, 100).Draw(t, "metadata fuller")
		worse.OverprovisionRatio = rapid.Float64Range(1, u.OverprovisionRatio).Draw(t, "ratio")
		for _, x := range []ThinUsage{u, worse} {
			if x.Allocatable() < 0 || x.Available() < 0 || x.MaximumVolumeSize() > x.Available() {
				t.Fatalf("%+v: %d, %d, %d", x, x.Allocatable(), x.Available(), x.MaximumVolumeSize())
			}
		}
		if worse.Allocatable() > u.Allocatable() {
			t.Fatalf("%d became %d", u.Allocatable(), worse.Allocatable())
		}
	})
}

func drawThin(t *rapid.T) ThinUsage {
	return ThinUsage{
		ExtentSizeBytes:          kib << rapid.IntRange(0, 25).Draw(t, "extent"),
		DataBytes:                rapid.Int64Range(0, 64*tib).Draw(t, "size"),
		OwnVirtualBytes:          rapid.Int64Range(0, 64*tib).Draw(t, "own"),
		OtherVirtualBytes:        rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, tib)).Draw(t, "other"),
		DataPercent:              rapid.Float64Range(0, 100).Draw(t, "percent"),
		MetadataPercent:          rapid.Float64Range(0, 100).Draw(t, "metadata percent"),
		ReserveBytes:             rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, tib)).Draw(t, "reserve"),
		OverprovisionRatio:       rapid.Float64Range(1, 100).Draw(t, "ratio"),
		DataWatermarkPercent:     rapid.IntRange(1, 100).Draw(t, "data mark"),
		MetadataWatermarkPercent: rapid.IntRange(1, 100).Draw(t, "metadata mark"),
	}
}

func TestScaleBytes(t *testing.T) {
	for _, c := range []struct {
		bytes int64
		ratio float64
		want  int64
	}{
		{100, 1, 100}, {100, 1.15, 115}, {1000, 1.001, 1001}, {1000, 8.012, 8012}, {10, 1.1, 11}, {1, 1.999, 1}, {3, 0.5, 1}, {0, 5, 0}, {-1, 5, 0},
		{math.MaxInt64, 1, math.MaxInt64}, {math.MaxInt64, 2, math.MaxInt64}, {math.MaxInt64, 1000, math.MaxInt64},
		{math.MaxInt64 / 2, 2, math.MaxInt64 - 1}, {math.MaxInt64, 0.5, math.MaxInt64 / 2},
		{100, 0, 0}, {100, -1, 0}, {100, math.NaN(), 0}, {100, math.Inf(1), 100 * MaxRatio}, {100, math.Inf(-1), 0}, {100, 1e300, 100 * MaxRatio},
	} {
		if got := ScaleBytes(c.bytes, c.ratio); got != c.want {
			t.Errorf("%d × %v: got %d, want %d", c.bytes, c.ratio, got, c.want)
		}
	}
}
