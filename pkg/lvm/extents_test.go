package lvm

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

const mib = int64(1) << 20

func TestRoundUpToExtents(t *testing.T) {
	tests := map[string]struct {
		size, extent, groups int64
		want                 int64
		wantErr              error
	}{
		"one byte":                     {1, 4 * mib, 1, 1, nil},
		"exact":                        {8 * mib, 4 * mib, 1, 2, nil},
		"one byte more":                {8*mib + 1, 4 * mib, 1, 3, nil},
		"stripes":                      {100*mib - 7, 4 * mib, 2, 26, nil},
		"exact stripes":                {104 * mib, 4 * mib, 2, 26, nil},
		"many stripes":                 {1, 4 * mib, 128, 128, nil},
		"zero":                         {0, 4 * mib, 1, 0, ErrInvalid},
		"negative":                     {-1, 4 * mib, 1, 0, ErrInvalid},
		"no extent size":               {1, 0, 1, 0, ErrInvalid},
		"no groups":                    {1, 4 * mib, 0, 0, ErrInvalid},
		"the largest number of bytes":  {math.MaxInt64, 4 * mib, 1, 0, ErrInvalid},
		"the largest number of groups": {1, 1, math.MaxInt64, 0, ErrInvalid},
		"huge extents":                 {math.MaxInt64, math.MaxInt64/2 + 1, 1, 0, ErrInvalid},
		"as many as LVM counts":        {math.MaxUint32 * mib, mib, 1, math.MaxUint32, nil},
		"one more than LVM counts":     {math.MaxUint32*mib + 1, mib, 1, 0, ErrInvalid},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := roundUpToExtents(test.size, test.extent, test.groups)
			if got != test.want || !errors.Is(err, test.wantErr) {
				t.Errorf("got %d, %v; want %d, %v", got, err, test.want, test.wantErr)
			}
		})
	}
}

func TestRoundUpToExtents_IsTheSmallestThatFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Min(1).Draw(t, "size")
		extent := int64(1) << rapid.IntRange(0, 62).Draw(t, "log2 of the extent size")
		groups := rapid.Int64Range(1, 128).Draw(t, "groups")
		got, err := roundUpToExtents(size, extent, groups)

		// The same sum where nothing can overflow.
		unit := new(big.Int).Mul(big.NewInt(extent), big.NewInt(groups))
		units := new(big.Int).Add(big.NewInt(size), unit)
		units.Sub(units, big.NewInt(1)).Div(units, unit)
		want := units.Mul(units, big.NewInt(groups))
		bytes := new(big.Int).Mul(want, big.NewInt(extent))
		fits := want.Cmp(big.NewInt(maxExtents)) <= 0 && bytes.IsInt64()
		if fits != (err == nil) || fits && want.Cmp(big.NewInt(got)) != 0 {
			t.Fatalf("got %d, %v; want %v, representable %v", got, err, want, fits)
		}
	})
}

// The numbers are those that lvs of lvm 2.03.16 shows for the legs and their metadata.
func TestRAID1Footprint(t *testing.T) {
	tests := map[string]struct {
		extents, extentSize int64
		legs                int
		want                int64
	}{
		"two legs":   {25, 4 * mib, 2, 52},
		"three legs": {25, 4 * mib, 3, 78},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := raid1Footprint(test.extents, test.extentSize, test.legs); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}
