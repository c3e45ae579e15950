package lvmtest

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// Prediction is what somebody says about a volume before it is made.
type Prediction struct {
	// SizeBytes is the size that it will have, FootprintBytes what it will take
	// from its volume group.
	SizeBytes, FootprintBytes int64
}

// Footprints makes volumes of random layouts and sizes, one after the other, extends
// them and removes them, and compares what LVM says with what predict said. The volume
// group has the given number of disks; volumes have at most maxBytes, which must fit
// with every layout on all disks.
func Footprints(t *testing.T, c Client, group string, disks, rounds int, maxBytes int64,
	predict func(req lvm.CreateRequest, extentSizeBytes int64) (Prediction, error),
) {
	// The seed is fixed, so that a failure comes again; the rounds are many.
	random := rand.New(rand.NewPCG(uint64(disks), uint64(maxBytes)))
	free := freeBytes(t, c, group)
	for round := range rounds {
		req := lvm.CreateRequest{
			Ref: lvm.Ref{VolumeGroup: group, Name: "v"}, SegmentType: lvm.SegLinear, SizeBytes: 1 + random.Int64N(maxBytes/2),
		}
		if round%10 == 0 { // whole numbers of anything are as likely to be got wrong
			req.SizeBytes = max(4096, req.SizeBytes&^(4096-1))
		}
		if kinds := []string{lvm.SegLinear, lvm.SegStriped, lvm.SegRAID1}; disks > 1 {
			req.SegmentType = kinds[random.IntN(len(kinds))]
		}
		if req.SegmentType != lvm.SegLinear {
			req.Stripes = 2 + random.IntN(disks-1)
		}
		_, err := c.Create(t.Context(), req)
		checkFootprint(t, c, req, err, free, predict)
		req.SizeBytes += random.Int64N(maxBytes / 2)
		_, err = c.Extend(t.Context(), req.Ref, req.SizeBytes)
		checkExtended(t, c, req, err, free, predict)
		if err := c.Remove(t.Context(), req.Ref); err != nil {
			t.Fatal(err)
		}
	}
	if now := freeBytes(t, c, group); now != free {
		t.Errorf("%d bytes are free after all was removed, %d before", now, free)
	}
}

// Footprint makes one volume, extends and removes it, and compares as [Footprints] does.
func Footprint(t *testing.T, c Client, req lvm.CreateRequest, extendedBytes int64,
	predict func(req lvm.CreateRequest, extentSizeBytes int64) (Prediction, error),
) {
	free := freeBytes(t, c, req.VolumeGroup)
	_, err := c.Create(t.Context(), req)
	checkFootprint(t, c, req, err, free, predict)
	req.SizeBytes = extendedBytes
	_, err = c.Extend(t.Context(), req.Ref, req.SizeBytes)
	checkExtended(t, c, req, err, free, predict)
	if err := c.Remove(t.Context(), req.Ref); err != nil {
		t.Fatal(err)
	}
}

func freeBytes(t *testing.T, c Client, group string) int64 {
	t.Helper()
	state, err := c.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	vg, ok := state.VolumeGroup(group)
	if !ok {
		t.Fatalf("no volume group %s: %v", group, state.Problems)
	}
	return vg.FreeExtents * vg.ExtentSizeBytes
}

// checkExtended is checkFootprint after Extend: LVM leaves a mirror the metadata that
// it was made with, which in small extents may be less or more than a new one has.
func checkExtended(t *testing.T, c Client, req lvm.CreateRequest, made error, free int64,
	predict func(req lvm.CreateRequest, extentSizeBytes int64) (Prediction, error),
) {
	t.Helper()
	const always = 512 << 10 // from here on the metadata is one extent, however large the volume
	checkFootprint(t, c, req, made, free, func(req lvm.CreateRequest, extentSizeBytes int64) (Prediction, error) {
		want, err := predict(req, extentSizeBytes)
		state, errState := c.State(t.Context())
		if err = errors.Join(err, errState); err != nil || req.SegmentType != lvm.SegRAID1 || extentSizeBytes >= always {
			return want, err
		}
		lv, _ := state.LogicalVolume(req.Ref)
		want.FootprintBytes = lv.FootprintExtents * extentSizeBytes
		return want, nil
	})
}

// checkFootprint compares one volume with its prediction, as LVM reports it.
func checkFootprint(t *testing.T, c Client, req lvm.CreateRequest, made error, free int64,
	predict func(req lvm.CreateRequest, extentSizeBytes int64) (Prediction, error),
) {
	t.Helper()
	known, errState := c.State(t.Context())
	state, errRefresh := c.Refresh(t.Context())
	if err := errors.Join(made, errState, errRefresh); err != nil {
		t.Fatalf("%+v: %v", req, err)
	}
	vg, _ := state.VolumeGroup(req.VolumeGroup)
	lv, _ := vg.LogicalVolume(req.Name)
	want, err := predict(req, vg.ExtentSizeBytes)
	if err != nil {
		t.Fatalf("%+v: %v", req, err)
	}
	got := Prediction{SizeBytes: lv.SizeBytes, FootprintBytes: lv.FootprintExtents * vg.ExtentSizeBytes}
	if got != want {
		t.Errorf("%+v, extents of %d: predicted %+v, LVM has %+v", req, vg.ExtentSizeBytes, want, got)
	}
	if taken := free - vg.FreeExtents*vg.ExtentSizeBytes; taken != got.FootprintBytes {
		t.Errorf("%+v: LVM counts %d bytes to the volume, the group lost %d", req, got.FootprintBytes, taken)
	}
	if patched, _ := known.LogicalVolume(req.Ref); patched.SizeBytes != lv.SizeBytes || patched.FootprintExtents != lv.FootprintExtents {
		t.Errorf("%+v: before LVM was asked the client believed %+v, then %+v", req, patched, lv)
	}
}
