package lvmtest

import (
	"errors"
	"testing"

	"github.com/csi-local/csi-local/pkg/lvm"
)

func groupCases() []groupCase {
	return []groupCase{
		{"PhysicalVolumeMissing", diskMissing},
		{"Ambiguous", ambiguous},
		{"ExtentSizes", extentSizes},
		{"SetVolumeGroups", setVolumeGroups},
		{"LimitOfVolumes", limitOfVolumes},
	}
}

func diskMissing(t *testing.T, m Machine) {
	m.AddGroup(t, "vgA", 4*mib, 2)
	c := m.NewClient(t, lvm.VolumeGroupSelector{Name: "vgA"})
	kept := lvm.CreateRequest{Ref: lvm.Ref{VolumeGroup: "vgA", Name: "kept"}, SegmentType: lvm.SegLinear, SizeBytes: 8 * mib}
	if _, err := c.Create(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	putBack := m.PullDisk(t, "vgA")
	state, err := c.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !errors.Is(state.Problems["vgA"], lvm.ErrPhysicalVolumeMissing) {
		t.Errorf("problems %v", state.Problems)
	}
	if lv, ok := state.LogicalVolume(kept.Ref); !ok || lv.SizeBytes != 8*mib {
		t.Errorf("a volume on the disk that is there: %+v", lv)
	}
	if _, err := c.Activate(t.Context(), kept.Ref); err != nil {
		t.Errorf("Activate of a volume that is complete: %v", err)
	}
	another := kept
	another.Name = "another"
	_, errCreate := c.Create(t.Context(), another)
	_, errExtend := c.Extend(t.Context(), kept.Ref, 16*mib)
	for what, err := range map[string]error{
		"Create": errCreate, "Extend": errExtend, "Remove": c.Remove(t.Context(), kept.Ref),
		"ChangeTags": c.ChangeTags(t.Context(), kept.Ref, []string{"x"}, nil),
	} {
		if !errors.Is(err, lvm.ErrPhysicalVolumeMissing) {
			t.Errorf("%s: %v", what, err)
		}
	}
	putBack()
	if state, err = c.Refresh(t.Context()); err != nil || len(state.Problems) != 0 {
		t.Errorf("with the disk back: %v, problems %v", err, state.Problems)
	}
	if lv, ok := state.LogicalVolume(kept.Ref); !ok || len(lv.Tags) != 0 || lv.SizeBytes != 8*mib {
		t.Errorf("with the disk back: %+v", lv)
	}
	if _, err := c.Extend(t.Context(), kept.Ref, 16*mib); err != nil {
		t.Errorf("Extend with the disk back: %v", err)
	}
	if err := c.Remove(t.Context(), kept.Ref); err != nil {
		t.Errorf("Remove with the disk back: %v", err)
	}
}

func ambiguous(t *testing.T, m Machine) {
	first := m.AddGroup(t, "vgA", 4*mib, 1)
	before := m.NewClient(t, lvm.VolumeGroupSelector{Name: "vgA"})
	ref := lvm.Ref{VolumeGroup: "vgA", Name: "a"}
	if _, err := before.Create(t.Context(), lvm.CreateRequest{Ref: ref, SegmentType: lvm.SegLinear, SizeBytes: 8 * mib}); err != nil {
		t.Fatal(err)
	}
	second := m.AddGroup(t, "vgA", 4*mib, 1)
	state, err := before.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if vg, _ := state.VolumeGroup("vgA"); vg.UUID != first || len(state.Problems) != 0 {
		t.Errorf("who saw the first group alone has %q, problems %v; want %q", vg.UUID, state.Problems, first)
	}
	if err := before.ChangeTags(t.Context(), ref, []string{"x"}, nil); err != nil {
		t.Errorf("ChangeTags in the group known before: %v", err)
	}
	unpinned := m.NewClient(t, lvm.VolumeGroupSelector{Name: "vgA"})
	if state, err = unpinned.State(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, ok := state.VolumeGroup("vgA"); ok || !errors.Is(state.Problems["vgA"], lvm.ErrVolumeGroupAmbiguous) {
		t.Errorf("without a pin: problems %v", state.Problems)
	}
	if err := unpinned.Remove(t.Context(), ref); !errors.Is(err, lvm.ErrVolumeGroupAmbiguous) {
		t.Errorf("Remove without a pin: %v", err)
	}
	for uuid, volumes := range map[string]int{first: 1, second: 0} {
		pinned := m.NewClient(t, lvm.VolumeGroupSelector{Name: "vgA", UUID: uuid})
		if state, err = pinned.State(t.Context()); err != nil {
			t.Fatal(err)
		}
		if vg, _ := state.VolumeGroup("vgA"); vg.UUID != uuid || len(vg.LogicalVolumes) != volumes || len(state.Problems) != 0 {
			t.Errorf("pinned to %s: %+v, problems %v", uuid, vg, state.Problems)
		}
	}
	gone := m.NewClient(t, lvm.VolumeGroupSelector{Name: "vgA", UUID: "000000-0000-0000-0000-0000-0000-000000"})
	if state, err = gone.State(t.Context()); err != nil || !errors.Is(state.Problems["vgA"], lvm.ErrVolumeGroupMissing) {
		t.Errorf("pinned to a group that is not there: %v, problems %v", err, state.Problems)
	}
}

func extentSizes(t *testing.T, m Machine) {
	for name, size := range map[string]int64{"vgSmall": 64 << 10, "vgLarge": 16 * mib} {
		m.AddGroup(t, name, size, 2)
		c := m.NewClient(t, lvm.VolumeGroupSelector{Name: name})
		for _, req := range []lvm.CreateRequest{
			{SegmentType: lvm.SegLinear, SizeBytes: size + 1},
			{SegmentType: lvm.SegStriped, Stripes: 2, SizeBytes: size + 1},
			{SegmentType: lvm.SegRAID1, Stripes: 2, SizeBytes: size + 1},
		} {
			req.Ref = lvm.Ref{VolumeGroup: name, Name: req.SegmentType}
			lv, err := c.Create(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			state, err := c.Refresh(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if reported, _ := state.LogicalVolume(req.Ref); lv.SizeBytes != 2*size || reported.SizeBytes != lv.SizeBytes ||
				reported.FootprintExtents != lv.FootprintExtents {
				t.Errorf("extents of %d bytes: %+v, reported %+v", size, lv, reported)
			}
		}
	}
}

func setVolumeGroups(t *testing.T, m Machine) {
	m.AddGroup(t, "vgA", 4*mib, 1)
	m.AddGroup(t, "vgB", 4*mib, 1)
	c := m.NewClient(t, lvm.VolumeGroupSelector{Name: "vgA"})
	for _, names := range [][]string{{"vgA", "vgB"}, {"vgB"}, nil, {"vgA"}} {
		var selectors []lvm.VolumeGroupSelector
		for _, name := range names {
			selectors = append(selectors, lvm.VolumeGroupSelector{Name: name})
		}
		if err := c.SetVolumeGroups(selectors); err != nil {
			t.Fatal(err)
		}
		state, err := c.Refresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(state.VolumeGroups) != len(names) || len(state.Problems) != 0 {
			t.Errorf("wanted %v: %d groups, problems %v", names, len(state.VolumeGroups), state.Problems)
		}
		for _, name := range names {
			if _, ok := state.VolumeGroup(name); !ok {
				t.Errorf("wanted %v: %s is not there", names, name)
			}
		}
	}
}

// A volume group may be full though it has extents: what it says of that, and how
// it refuses.
func limitOfVolumes(t *testing.T, m Machine) {
	const limit = 3
	m.AddGroup(t, "vgA", 4*mib, 2)
	m.LimitVolumes(t, "vgA", limit)
	c := m.NewClient(t, lvm.VolumeGroupSelector{Name: "vgA"})
	group := func() lvm.VolumeGroup {
		state, err := c.Refresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		vg, _ := state.VolumeGroup("vgA")
		return vg
	}
	empty := group()
	if empty.MaxLogicalVolumes != limit || empty.MetadataFreeBytes < 100<<10 || empty.MetadataFreeBytes > mib/2 {
		t.Errorf("at most %d volumes, want %d; %d bytes of metadata are free", empty.MaxLogicalVolumes, limit, empty.MetadataFreeBytes)
	}
	request := func(name, segmentType string) lvm.CreateRequest {
		return lvm.CreateRequest{Ref: lvm.Ref{VolumeGroup: "vgA", Name: name}, SegmentType: segmentType, Stripes: 2, SizeBytes: 8 * mib}
	}
	// A mirror is one volume, whatever parts it has.
	for i, segmentType := range []string{lvm.SegRAID1, lvm.SegStriped, lvm.SegStriped} {
		if _, err := c.Create(t.Context(), request(string(rune('a'+i)), segmentType)); err != nil {
			t.Fatal(err)
		}
	}
	if full := group(); full.MetadataFreeBytes >= empty.MetadataFreeBytes || empty.MetadataFreeBytes-full.MetadataFreeBytes > 2*limit*lvm.MetadataBytesPerVolume {
		t.Errorf("%d volumes took %d bytes of metadata", limit, empty.MetadataFreeBytes-full.MetadataFreeBytes)
	}
	if _, err := c.Create(t.Context(), request("d", lvm.SegStriped)); !errors.Is(err, lvm.ErrNoSpace) {
		t.Errorf("one volume too many: %v", err)
	}
	pool := lvm.ThinPoolRequest{Ref: lvm.Ref{VolumeGroup: "vgA", Name: "pool"}, SizeBytes: 16 * mib}
	if _, err := c.CreateThinPool(t.Context(), pool); !errors.Is(err, lvm.ErrNoSpace) {
		t.Errorf("a thin pool too many: %v", err)
	}
	if err := c.Remove(t.Context(), lvm.Ref{VolumeGroup: "vgA", Name: "a"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(t.Context(), request("d", lvm.SegStriped)); err != nil {
		t.Errorf("after one was removed: %v", err)
	}
	m.LimitVolumes(t, "vgA", 0)
	if lifted := group(); lifted.MaxLogicalVolumes != 0 {
		t.Errorf("at most %d volumes after the limit was lifted", lifted.MaxLogicalVolumes)
	}
}
