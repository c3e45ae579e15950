package lvmtest

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-local/csi-local/pkg/lvm"
)

func errorCases() []bedCase {
	return []bedCase{
		{"NoSpace", noSpace},
		{"Exists", exists},
		{"NotFound", notFound},
		{"InUse_OpenDevice", inUseOpen},
		{"InUse_Mounted", inUseMounted},
		{"InUse_OriginOfSnapshot", inUseOrigin},
		{"Invalid", wantInvalid},
		{"VolumeGroupMissing", groupMissing},
		{"Timeout", timeout},
		{"Unavailable_AfterClose", closedClient},
	}
}

// wantKind checks that err is one *lvm.Error of one kind, and that nothing changed.
func (b *bed) wantKind(t *testing.T, what string, err, kind error, before lvm.VolumeGroup) {
	t.Helper()
	var known *lvm.Error
	if !errors.Is(err, kind) || !errors.As(err, &known) || !errors.Is(known.Kind, kind) {
		t.Errorf("%s: %v, want %v", what, err, kind)
	}
	after := b.refreshed(t)
	after.MetadataSequence, after.MetadataFreeBytes = before.MetadataSequence, before.MetadataFreeBytes
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("%s changed something: -before +after\n%s", what, diff)
	}
}

func noSpace(t *testing.T, b *bed) {
	kept := b.create(t, b.linear("kept", 8*mib))
	b.create(t, lvm.CreateRequest{Ref: b.ref("mirror"), SegmentType: lvm.SegRAID1, Stripes: 2, SizeBytes: 8 * mib})
	before := b.refreshed(t)
	all := before.FreeExtents * b.extent
	largest := int64(0)
	for _, d := range before.PhysicalVolumes {
		largest = max(largest, d.FreeExtents*b.extent)
	}
	for what, req := range map[string]lvm.CreateRequest{
		"one extent too many":    {SegmentType: lvm.SegLinear, SizeBytes: all + 1},
		"a huge volume":          {SegmentType: lvm.SegLinear, SizeBytes: 1 << 50},
		"more stripes than fit":  {SegmentType: lvm.SegStriped, Stripes: 2, SizeBytes: all + b.extent},
		"more stripes than disk": {SegmentType: lvm.SegStriped, Stripes: disksOfBed + 1, SizeBytes: 1},
		"copies that do not fit": {SegmentType: lvm.SegRAID1, Stripes: disksOfBed, SizeBytes: largest},
		"more copies than disks": {SegmentType: lvm.SegRAID1, Stripes: disksOfBed + 1, SizeBytes: 1},
	} {
		req.Ref = b.ref("x")
		_, err := b.client.Create(t.Context(), req)
		b.wantKind(t, what, err, lvm.ErrNoSpace, before)
	}
	_, err := b.client.Extend(t.Context(), kept.Ref(), kept.SizeBytes+all+1)
	b.wantKind(t, "Extend", err, lvm.ErrNoSpace, before)
	_, err = b.client.Extend(t.Context(), b.ref("mirror"), all)
	b.wantKind(t, "Extend of a mirror", err, lvm.ErrNoSpace, before)
	_, err = b.client.CreateThinPool(t.Context(), lvm.ThinPoolRequest{Ref: b.ref("tp"), SizeBytes: all})
	b.wantKind(t, "CreateThinPool", err, lvm.ErrNoSpace, before)
	if _, err := b.client.Create(t.Context(), b.linear("x", all)); err != nil {
		t.Errorf("a volume of all that is free: %v", err)
	}
}

func exists(t *testing.T, b *bed) {
	b.create(t, b.linear("a", 8*mib))
	b.create(t, b.linear("b", 8*mib))
	b.pool(t, "tp", 16*mib)
	before := b.refreshed(t)
	_, err := b.client.Create(t.Context(), b.linear("a", 8*mib))
	b.wantKind(t, "the same again", err, lvm.ErrExists, before)
	_, err = b.client.Create(t.Context(), b.linear("a", 1<<50))
	b.wantKind(t, "the same name with a size that does not fit", err, lvm.ErrExists, before)
	_, err = b.client.Create(t.Context(), b.linear("tp", 8*mib))
	b.wantKind(t, "the name of a thin pool", err, lvm.ErrExists, before)
	_, err = b.client.CreateThinPool(t.Context(), lvm.ThinPoolRequest{Ref: b.ref("a"), SizeBytes: 8 * mib})
	b.wantKind(t, "a thin pool with the name of a volume", err, lvm.ErrExists, before)
	b.wantKind(t, "Rename", b.client.Rename(t.Context(), b.ref("b"), "a"), lvm.ErrExists, before)
}

func notFound(t *testing.T, b *bed) {
	before := b.refreshed(t)
	nothing := b.ref("nothing")
	_, errExtend := b.client.Extend(t.Context(), nothing, 8*mib)
	_, errActivate := b.client.Activate(t.Context(), nothing)
	_, errThin := b.client.Create(t.Context(), b.thin("x", "nothing", 8*mib))
	for what, err := range map[string]error{
		"Remove": b.client.Remove(t.Context(), nothing), "Extend": errExtend, "Activate": errActivate,
		"Deactivate": b.client.Deactivate(t.Context(), nothing), "Rename": b.client.Rename(t.Context(), nothing, "x"),
		"ChangeTags":   b.client.ChangeTags(t.Context(), nothing, []string{"x"}, nil),
		"no thin pool": errThin,
	} {
		b.wantKind(t, what, err, lvm.ErrNotFound, before)
	}
	// What somebody else removed since the last report is not found either.
	for _, step := range []struct {
		what string
		call func(lvm.Ref) error
	}{
		{"Remove", func(ref lvm.Ref) error { return b.client.Remove(t.Context(), ref) }},
		{"ChangeTags", func(ref lvm.Ref) error { return b.client.ChangeTags(t.Context(), ref, []string{"x"}, nil) }},
		{"Extend", func(ref lvm.Ref) error { _, err := b.client.Extend(t.Context(), ref, 20*mib); return err }},
		{"Activate", func(ref lvm.Ref) error { _, err := b.client.Activate(t.Context(), ref); return err }},
	} {
		lv := b.active(t, b.linear("gone", 8*mib))
		b.machine.Remove(t, lv.Ref())
		b.wantKind(t, step.what+" of what is gone", step.call(lv.Ref()), lvm.ErrNotFound, before)
	}
}

func inUseOpen(t *testing.T, b *bed) {
	lv := b.active(t, b.linear("a", 8*mib))
	release := b.machine.Hold(t, lv)
	before := b.refreshed(t)
	b.wantKind(t, "Remove", b.client.Remove(t.Context(), lv.Ref()), lvm.ErrInUse, before)
	b.wantKind(t, "Deactivate", b.client.Deactivate(t.Context(), lv.Ref()), lvm.ErrInUse, before)
	release()
	if err := b.client.Remove(t.Context(), lv.Ref()); err != nil {
		t.Errorf("Remove after release: %v", err)
	}
}

func inUseMounted(t *testing.T, b *bed) {
	lv := b.active(t, b.linear("a", 16*mib))
	unmount := b.machine.Mount(t, lv)
	before := b.refreshed(t)
	b.wantKind(t, "Remove", b.client.Remove(t.Context(), lv.Ref()), lvm.ErrInUse, before)
	b.wantKind(t, "Deactivate", b.client.Deactivate(t.Context(), lv.Ref()), lvm.ErrInUse, before)
	unmount()
	if err := b.client.Deactivate(t.Context(), lv.Ref()); err != nil {
		t.Errorf("Deactivate after unmount: %v", err)
	}
}

func inUseOrigin(t *testing.T, b *bed) {
	lv := b.active(t, b.linear("a", 8*mib))
	b.machine.Snapshot(t, lv.Ref(), "keep", 8*mib)
	// The client does not know of the snapshot yet: it must not be removed along.
	if err := b.client.ChangeTagsUnlessOrigin(t.Context(), lv.Ref(), []string{"y"}, nil); !errors.Is(err, lvm.ErrInUse) {
		t.Errorf("ChangeTagsUnlessOrigin of an origin: %v", err)
	}
	if err := b.client.Remove(t.Context(), lv.Ref()); !errors.Is(err, lvm.ErrInUse) {
		t.Errorf("Remove of an origin: %v", err)
	}
	before := b.refreshed(t)
	snapshot, _ := before.LogicalVolume("keep")
	if snapshot.SegmentType != lvm.SegSnapshot || snapshot.Origin != "a" {
		t.Errorf("the snapshot is %+v", snapshot)
	}
	b.wantKind(t, "Remove", b.client.Remove(t.Context(), lv.Ref()), lvm.ErrInUse, before)
	_, err := b.client.Extend(t.Context(), lv.Ref(), 16*mib)
	b.wantKind(t, "Extend", err, lvm.ErrInUse, before)
	if err := b.client.ChangeTags(t.Context(), lv.Ref(), []string{"x"}, nil); err != nil {
		t.Errorf("ChangeTags of an origin: %v", err)
	}
	// Refused even if there is nothing to change.
	if err := b.client.ChangeTagsUnlessOrigin(t.Context(), lv.Ref(), []string{"x"}, nil); !errors.Is(err, lvm.ErrInUse) {
		t.Errorf("ChangeTagsUnlessOrigin of an origin that has the tag: %v", err)
	}
	for _, ref := range []lvm.Ref{snapshot.Ref(), lv.Ref()} {
		if err := b.client.Remove(t.Context(), ref); err != nil {
			t.Errorf("Remove of %s: %v", ref, err)
		}
	}
}

func groupMissing(t *testing.T, b *bed) {
	c := b.machine.NewClient(t, lvm.VolumeGroupSelector{Name: b.group}, lvm.VolumeGroupSelector{Name: "nosuch"})
	state, err := c.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(state.Problems) != 1 || !errors.Is(state.Problems["nosuch"], lvm.ErrVolumeGroupMissing) {
		t.Errorf("problems %v", state.Problems)
	}
	if _, ok := state.VolumeGroup(b.group); !ok {
		t.Error("the group that is there is not in the state")
	}
	for _, ref := range []lvm.Ref{{VolumeGroup: "nosuch", Name: "a"}, {VolumeGroup: "notasked", Name: "a"}} {
		_, errCreate := c.Create(t.Context(), lvm.CreateRequest{Ref: ref, SegmentType: lvm.SegLinear, SizeBytes: 1})
		for what, err := range map[string]error{"Create": errCreate, "Remove": c.Remove(t.Context(), ref)} {
			if !errors.Is(err, lvm.ErrVolumeGroupMissing) {
				t.Errorf("%s of %s: %v", what, ref, err)
			}
		}
	}
}

func timeout(t *testing.T, b *bed) {
	lv := b.create(t, b.linear("a", 8*mib))
	before := b.refreshed(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, errCreate := b.client.Create(ctx, b.linear("b", 8*mib))
	_, errExtend := b.client.Extend(ctx, lv.Ref(), 20*mib)
	_, errActivate := b.client.Activate(ctx, lv.Ref())
	for what, err := range map[string]error{
		"Create": errCreate, "Extend": errExtend, "Activate": errActivate, "Remove": b.client.Remove(ctx, lv.Ref()),
		"ChangeTags": b.client.ChangeTags(ctx, lv.Ref(), []string{"x"}, nil),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s does not match the context's error: %v", what, err)
		}
		b.wantKind(t, what, err, lvm.ErrTimeout, before)
	}
	if _, err := b.client.State(ctx); err != nil {
		t.Errorf("State with an ended context: %v", err)
	}
}

func closedClient(t *testing.T, b *bed) {
	c := b.machine.NewClient(t, lvm.VolumeGroupSelector{Name: b.group})
	if _, err := c.State(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, errCreate := c.Create(t.Context(), b.linear("a", 1))
	_, errRefresh := c.Refresh(t.Context())
	for what, err := range map[string]error{
		"Create": errCreate, "Refresh": errRefresh, "Remove": c.Remove(t.Context(), b.ref("a")),
	} {
		if !errors.Is(err, lvm.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
