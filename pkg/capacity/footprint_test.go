package capacity

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// What LVM 2.03.16 took from the volume group (vg_free_count before and after
// lvcreate in the throwaway kernel), with its default region size.
func TestFootprint_AsMeasured(t *testing.T) {
	for _, c := range []struct {
		shape   Shape
		extent  int64
		size    int64 // lv_size
		extents int64 // taken
	}{
		{Shape{}, 4 * mib, 100 * mib, 25},
		{Shape{Layout: LayoutLinear}, 32 * mib, 100 * mib, 4},
		{Shape{Layout: LayoutThin}, 4 * mib, 100 * mib, 25},
		{striped(2), 4 * mib, 1, 2},
		{striped(3), mib, 100 * mib, 102},
		{striped(3), 4 * mib, 100 * mib, 27},
		{striped(3), 32 * mib, 100 * mib, 6},
		{striped(3), 4 * kib, 100 * mib, 25602},

		{raid1(2), 4 * kib, 4 * kib, 8},
		{raid1(2), 4 * kib, 12 * kib, 12},
		{raid1(2), 4 * kib, 28 * kib, 20},
		{raid1(2), 4 * kib, 64 * kib, 38},
		{raid1(2), 4 * kib, 33 * mib, 16902},
		{raid1(2), 4 * kib, 1500 * mib, 768006},
		{raid1(3), 4 * kib, 100 * mib, 76809},
		{raid1(2), 16 * kib, 16 * kib, 4},
		{raid1(2), 16 * kib, 700 * mib, 89602},
		{raid1(2), 64 * kib, 5 * mib, 162},
		{raid1(3), 128 * kib, 100 * mib, 2403},
		{raid1(2), 256 * kib, 1500 * mib, 12002},
		{raid1(2), 512 * kib, 512 * kib, 4},

		{raid1(2), mib, mib, 4},
		{raid1(2), mib, 2 * mib, 6},
		{raid1(2), mib, 3 * mib, 8},
		{raid1(2), mib, 7 * mib, 16},
		{raid1(2), mib, 33 * mib, 68},
		{raid1(2), mib, 100 * mib, 202},
		{raid1(3), mib, 100 * mib, 303},
		{raid1(2), mib, 1500 * mib, 3002},
		{raid1(2), 4 * mib, mib, 4},
		{raid1(2), 4 * mib, 5 * mib, 6},
		{raid1(2), 4 * mib, 33 * mib, 20},
		{raid1(2), 4 * mib, 100 * mib, 52},
		{raid1(3), 4 * mib, 100 * mib, 78},
		{raid1(2), 4 * mib, 700 * mib, 352},
		{raid1(2), 4 * mib, 1500 * mib, 752},
		{raid1(2), 32 * mib, mib, 4},
		{raid1(2), 32 * mib, 33 * mib, 6},
		{raid1(2), 32 * mib, 100 * mib, 10},
		{raid1(3), 32 * mib, 100 * mib, 15},
		{raid1(2), 32 * mib, 1500 * mib, 96},
	} {
		got, err := Footprint(c.shape, c.size, c.extent)
		if err != nil || got != c.extents*c.extent {
			t.Errorf("%s %d, %d bytes in extents of %d: got %d extents, %v; LVM took %d",
				c.shape.Layout, c.shape.Stripes, c.size, c.extent, got/c.extent, err, c.extents)
		}
	}
}

// The extents of rmeta_0 that LVM 2.03.16 made on sparse disks of 40 TiB.
func TestRAIDMetadataExtents_AsMeasured(t *testing.T) {
	sizes := []int64{256 * gib, 512 * gib, tib, 2 * tib, 3 * tib, 4 * tib, 5 * tib, 8 * tib, 9 * tib, 16 * tib, 17 * tib, 33 * tib}
	for extent, want := range map[int64][]int64{
		64 * kib:  {1, 1, 2, 3, 4, 5, 3, 5, 3, 5, 3, 3},
		128 * kib: {1, 1, 1, 2, 2, 3, 2, 3, 2, 3, 2, 2},
		256 * kib: {1, 1, 1, 1, 1, 2, 1, 2, 1, 2, 1, 1},
		512 * kib: {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
		mib:       {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
	} {
		for i, size := range sizes {
			if got := raidMetadataExtents(size, extent); got != want[i] {
				t.Errorf("%d bytes in extents of %d: got %d, LVM made %d", size, extent, got, want[i])
			}
		}
	}
}

func TestFootprint_Errors(t *testing.T) {
	for name, c := range map[string]struct {
		shape        Shape
		size, extent int64
		want         error
	}{
		"negative":               {Shape{}, -1, 4 * mib, ErrInvalid},
		"no extent size":         {Shape{}, 1, 0, ErrInvalid},
		"rounding overflows":     {Shape{}, math.MaxInt64, 4 * mib, ErrOutOfRange},
		"striped overflows":      {striped(128), math.MaxInt64 - 1, 4 * mib, ErrOutOfRange},
		"copies overflow":        {raid1(3), math.MaxInt64 / 2, 4 * mib, ErrOutOfRange},
		"copies overflow by one": {raid1(2), math.MaxInt64/2 - math.MaxInt64/2%mib, mib, ErrOutOfRange},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Footprint(c.shape, c.size, c.extent); !errors.Is(err, c.want) || got != 0 {
				t.Errorf("got %d, %v; want %v", got, err, c.want)
			}
		})
	}
}

func TestFootprint_Properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := drawShape(t)
		extent := kib << rapid.IntRange(0, 25).Draw(t, "extent")
		a := rapid.Int64Range(0, 64*tib).Draw(t, "a")
		b := rapid.Int64Range(a, 64*tib).Draw(t, "b")
		fa, err := Footprint(shape, a, extent)
		if err != nil {
			t.Fatal(err)
		}
		fb, err := Footprint(shape, b, extent)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case fa < a || fb < b:
			t.Fatalf("less than the volume: %d for %d, %d for %d", fa, a, fb, b)
		case fa%extent != 0:
			t.Fatalf("%d is no multiple of the extent size", fa)
		// Where the region doubles, a larger volume has less metadata; by far
		// less than what it has more in data, unless the two are very near.
		case fa > fb && (shape.Layout != LayoutRAID1 || b-a > mib):
			t.Fatalf("%d bytes take %d, %d take %d", a, fa, b, fb)
		}
	})
}
