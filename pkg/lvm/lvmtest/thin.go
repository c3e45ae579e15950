package lvmtest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-local/csi-local/pkg/lvm"
)

func thinCases() []bedCase {
	return []bedCase{
		{"Pool_ZeroesAndHasMetadata", poolFacts},
		{"Volume_TakesNothingOfTheGroup", thinVolume},
		{"Volume_CanBePromisedMoreThanThereIs", thinOverprovision},
		{"Pool_WithVolumesIsInUse", poolInUse},
		{"Pool_OfAnotherType", notAPool},
		{"Pool_IsActivatedAtOnce", activatePool},
		{"Pool_Full", poolFull},
		{"Pool_Damaged", poolDamaged},
	}
}

func poolFacts(t *testing.T, b *bed) {
	free := b.refreshed(t).FreeExtents
	pool, err := b.client.CreateThinPool(t.Context(), lvm.ThinPoolRequest{
		Ref: b.ref("tp"), SizeBytes: 40*mib + 1, ChunkSizeBytes: 128 << 10, Tags: []string{"x"},
	})
	if err != nil {
		t.Fatal(err)
	}
	vg := b.refreshed(t)
	if pool.SegmentType != lvm.SegThinPool || pool.SizeBytes != 44*mib || !pool.Zeroes || !pool.Active || pool.NeedsCheck ||
		pool.DataPercent != 0 || !(pool.MetadataPercent > 0 && pool.MetadataPercent < 100) || len(pool.Tags) != 1 {
		t.Errorf("the pool is %+v", pool)
	}
	// 11 extents of data, one of metadata; and one in the group for repairs.
	if pool.FootprintExtents != 12 || free-vg.FreeExtents != 13 {
		t.Errorf("the pool has %d extents, the group lost %d", pool.FootprintExtents, free-vg.FreeExtents)
	}
	if err := b.client.Remove(t.Context(), pool.Ref()); err != nil {
		t.Fatal(err)
	}
	if now := b.refreshed(t).FreeExtents; now != free {
		t.Errorf("%d free extents after the only pool is gone, %d before", now, free)
	}
}

func thinVolume(t *testing.T, b *bed) {
	b.pool(t, "tp", 40*mib)
	free := b.refreshed(t).FreeExtents
	req := b.thin("a", "tp", 10*mib)
	req.Tags = []string{"x"}
	created := b.create(t, req)
	reported, _ := b.refreshed(t).LogicalVolume("a")
	want := lvm.LogicalVolume{
		VolumeGroup: b.group, Name: "a", SegmentType: lvm.SegThin, SizeBytes: 12 * mib, ThinPool: "tp", Tags: []string{"x"},
		Major: -1, Minor: -1, DataPercent: -1, MetadataPercent: -1,
	}
	for source, lv := range map[string]lvm.LogicalVolume{"Create": created, "Refresh": reported} {
		if diff := cmp.Diff(want, lv, whatLVMChooses); diff != "" {
			t.Errorf("%s: -want +got\n%s", source, diff)
		}
	}
	if _, err := b.client.Activate(t.Context(), created.Ref()); err != nil {
		t.Fatal(err)
	}
	extended, err := b.client.Extend(t.Context(), created.Ref(), 12*mib+1)
	if err != nil {
		t.Fatal(err)
	}
	if extended.SizeBytes != 16*mib || extended.FootprintExtents != 0 || deviceSize(t, extended.Path) != 16*mib {
		t.Errorf("extended: %+v", extended)
	}
	if reported, _ = b.refreshed(t).LogicalVolume("a"); reported.DataPercent != 0 || !reported.Active {
		t.Errorf("an active volume without data: %+v", reported)
	}
	if now := b.refreshed(t).FreeExtents; now != free {
		t.Errorf("a thin volume took %d extents of the group", free-now)
	}
	if err := b.client.Remove(t.Context(), created.Ref()); err != nil {
		t.Fatal(err)
	}
}

func thinOverprovision(t *testing.T, b *bed) {
	b.pool(t, "tp", 20*mib)
	lv := b.active(t, b.thin("huge", "tp", 1<<40))
	if lv.SizeBytes != 1<<40 || deviceSize(t, lv.Path) != 1<<40 {
		t.Errorf("a thin volume of 1 TiB: %+v", lv)
	}
}

func poolInUse(t *testing.T, b *bed) {
	pool := b.pool(t, "tp", 20*mib)
	b.create(t, b.thin("a", "tp", 8*mib))
	before := b.refreshed(t)
	b.wantKind(t, "Remove", b.client.Remove(t.Context(), pool.Ref()), lvm.ErrInUse, before)
}

// After a reboot a pool is inactive. With volumes in it, it has no device node that
// could be waited for, and nobody else's command may wait for that either.
func activatePool(t *testing.T, b *bed) {
	for _, volumes := range []int{0, 1} {
		pool := b.pool(t, fmt.Sprint("tp", volumes), 20*mib)
		for range volumes {
			b.create(t, b.thin("a", pool.Name, 8*mib))
		}
		if err := b.client.Deactivate(t.Context(), pool.Ref()); err != nil {
			t.Fatal(err)
		}
		if lv, _ := b.refreshed(t).LogicalVolume(pool.Name); lv.Active || lv.DataPercent != -1 {
			t.Errorf("%d volumes: after Deactivate: %+v", volumes, lv)
		}
		begin := time.Now()
		lv, err := b.client.Activate(t.Context(), pool.Ref())
		if took := time.Since(begin); err != nil || took > quick { // a missing node is waited for that long

			t.Errorf("%d volumes: Activate took %v: %v", volumes, took, err)
		}
		reported, _ := b.refreshed(t).LogicalVolume(pool.Name)
		if diff := cmp.Diff(reported, lv); diff != "" || !lv.Active || lv.DataPercent != 0 || !(lv.MetadataPercent > 0) {
			t.Errorf("%d volumes: Activate says %+v; -reported +answered\n%s", volumes, lv, diff)
		}
		if _, err := b.client.Activate(t.Context(), pool.Ref()); err != nil {
			t.Errorf("%d volumes: Activate of an active pool: %v", volumes, err)
		}
	}
}

func notAPool(t *testing.T, b *bed) {
	b.create(t, b.linear("linear", 8*mib))
	before := b.refreshed(t)
	_, err := b.client.Create(t.Context(), b.thin("a", "linear", 8*mib))
	b.wantKind(t, "a thin volume in a linear one", err, lvm.ErrNotFound, before)
}

func poolFull(t *testing.T, b *bed) {
	pool := b.pool(t, "tp", 16*mib)
	lv := b.active(t, b.thin("a", "tp", 64*mib))
	b.machine.FillPool(t, pool, lv)
	before := b.refreshed(t)
	if full, _ := before.LogicalVolume("tp"); full.DataPercent != 100 || full.Health != "out_of_data" {
		t.Errorf("a full pool: %+v", full)
	}
	_, err := b.client.Create(t.Context(), b.thin("b", "tp", 8*mib))
	b.wantKind(t, "Create", err, lvm.ErrThinPoolFull, before)
	if err := b.client.ChangeTags(t.Context(), lv.Ref(), []string{"x"}, nil); err != nil {
		t.Errorf("ChangeTags in a full pool: %v", err)
	}
	if err := b.client.Remove(t.Context(), lv.Ref()); err != nil {
		t.Errorf("Remove in a full pool: %v", err)
	}
	if _, err := b.client.Create(t.Context(), b.thin("b", "tp", 8*mib)); err != nil {
		t.Errorf("Create after space was given back: %v", err)
	}
}

func poolDamaged(t *testing.T, b *bed) {
	pool := b.pool(t, "tp", 16*mib)
	lv := b.create(t, b.thin("a", "tp", 8*mib))
	if err := b.client.Deactivate(t.Context(), pool.Ref()); err != nil {
		t.Fatal(err)
	}
	b.machine.DamagePool(t, pool)
	if _, err := b.client.Activate(t.Context(), lv.Ref()); !errors.Is(err, lvm.ErrThinPoolRepair) {
		t.Errorf("Activate: %v", err)
	}
	if _, err := b.client.Create(t.Context(), b.thin("b", "tp", 8*mib)); !errors.Is(err, lvm.ErrThinPoolRepair) {
		t.Errorf("Create: %v", err)
	}
	// Whatever LVM left behind, other volumes of the group work on.
	if _, err := b.client.Create(t.Context(), b.linear("other", 8*mib)); err != nil {
		t.Errorf("Create beside a damaged pool: %v", err)
	}
}
