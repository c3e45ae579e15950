package driver

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/csi-local/csi-local/pkg/blockdev"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
	"github.com/csi-local/csi-local/pkg/orphans"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

var orphanSince = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC) //nolint:gochecknoglobals // a constant

// candidate is the only volume that is looked after.
func candidate(t *testing.T, p *process) orphans.Volume {
	t.Helper()
	found, err := p.OrphanCandidates(t.Context())
	if err != nil || len(found) != 1 {
		t.Fatalf("candidates %+v, %v; want one", found, err)
	}
	return found[0]
}

func mark(t *testing.T, p *process, v orphans.Volume, seen bool, orphan time.Time) orphans.Volume {
	t.Helper()
	if err := p.MarkVolume(t.Context(), v, seen, orphan); err != nil {
		t.Fatal(err)
	}
	return candidate(t, p)
}

func allocatable(t *testing.T, p *process, pool string) int64 {
	t.Helper()
	for _, reading := range p.PoolReadings(t.Context()) {
		if reading.Pool == pool && reading.Err == nil {
			return reading.AllocatableBytes
		}
	}
	t.Fatalf("pool %s cannot be read", pool)
	return 0
}

func TestOrphanCandidates_DescribeTheVolume(t *testing.T) {
	w := newWorld(t, worldOptions{})
	p := w.start(t)
	id := mustCreate(t, p, createReq("pvc-1", "thick", 9*mib)).GetVolumeId()
	markUsed(t, p, id, "xfs")
	v := mark(t, p, candidate(t, p), true, orphanSince)
	if v.UUID == "" {
		t.Error("no UUID")
	}
	v.UUID = ""
	want := orphans.Volume{
		ID: "vg-a/pvc-1", Name: "pvc-1", Pool: "thick", SizeBytes: 12 * mib, PoolBytes: 12 * mib,
		Filesystem: "xfs", Used: true, Seen: true, Orphan: orphanSince,
		Attributes: map[string]string{"pool": "thick", "layout": "linear", "size": "12582912", "filesystem": "xfs"},
	}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// An orphan's bytes are in neither term of what is published, and come back with it.
func TestOrphan_IsNotPublished(t *testing.T) {
	for _, pool := range []string{"thick", "thin"} {
		t.Run(pool, func(t *testing.T) {
			w := newWorld(t, worldOptions{})
			p := w.start(t)
			before := allocatable(t, p, pool)
			mustCreate(t, p, createReq("pvc-1", pool, 64*mib))
			if got := allocatable(t, p, pool); got != before {
				t.Errorf("with a volume %d, before %d", got, before)
			}
			v := mark(t, p, candidate(t, p), false, orphanSince)
			if got := allocatable(t, p, pool); got != before-v.PoolBytes || v.PoolBytes != 64*mib {
				t.Errorf("with an orphan of %d bytes %d, before %d", v.PoolBytes, got, before)
			}
			mark(t, p, v, true, time.Time{})
			if got := allocatable(t, p, pool); got != before {
				t.Errorf("after its return %d, before %d", got, before)
			}
		})
	}
}

func TestCreateVolume_TakesAnOrphanOver(t *testing.T) {
	w := newWorld(t, worldOptions{})
	p := w.start(t)
	before := allocatable(t, p, "thick")
	first := mustCreate(t, p, createReq("pvc-1", "thick", 64*mib))
	mark(t, p, candidate(t, p), false, orphanSince)
	again := mustCreate(t, p, createReq("pvc-1", "thick", 64*mib))
	if again.GetVolumeId() != first.GetVolumeId() || candidate(t, p).IsOrphan() || allocatable(t, p, "thick") != before {
		t.Errorf("%v, then %v: %+v", first, again, candidate(t, p))
	}
}

// LVM is asked for nothing that is so already, and for one command otherwise.
func TestMarkVolume_IsOneCommand(t *testing.T) {
	w := newWorld(t, worldOptions{})
	p := w.start(t)
	mustCreate(t, p, createReq("pvc-1", "thick", mib))
	changes := func() int {
		n := 0
		for _, c := range p.lvm.Calls() {
			if c.Op == lvmfake.OpChangeTags && c.Phase == lvmfake.Before {
				n++
			}
		}
		return n
	}
	v := mark(t, p, candidate(t, p), false, orphanSince)
	v = mark(t, p, v, false, orphanSince)
	v = mark(t, p, v, true, time.Time{})
	mark(t, p, v, true, time.Time{})
	if n := changes(); n != 2 {
		t.Errorf("%d commands, want 2", n)
	}
}

func TestOrphans_VolumeThatChangedIsLeftAlone(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *process, orphans.Volume){
		"a pod has it":         func(t *testing.T, p *process, v orphans.Volume) { markUsed(t, p, v.ID, "") },
		"CreateVolume took it": func(t *testing.T, p *process, _ orphans.Volume) { mustCreate(t, p, createReq("pvc-1", "thick", mib)) },
		"its volume was seen":  func(t *testing.T, p *process, v orphans.Volume) { mark(t, p, v, true, v.Orphan) },
		"it was deleted":       func(t *testing.T, p *process, v orphans.Volume) { mustDelete(t, p, v.ID) },
		"another has its name": func(t *testing.T, p *process, v orphans.Volume) {
			mustDelete(t, p, v.ID)
			mustCreate(t, p, createReq("pvc-1", "thick", mib))
			mark(t, p, candidate(t, p), false, v.Orphan)
		},
		"its deletion is begun": func(t *testing.T, p *process, v orphans.Volume) { failedDeletion(t, p, v.ID) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, worldOptions{Devices: true})
			p := w.start(t)
			mustCreate(t, p, createReq("pvc-1", "thick", mib))
			v := mark(t, p, candidate(t, p), false, orphanSince)
			change(t, p, v)
			before := w.look(t)
			if err := p.MarkVolume(t.Context(), v, true, time.Time{}); !errors.Is(err, orphans.ErrChanged) {
				t.Errorf("MarkVolume: %v", err)
			}
			confirm := func(context.Context) error { t.Error("asked"); return nil }
			if err := p.DeleteOrphan(t.Context(), v, confirm); !errors.Is(err, orphans.ErrChanged) {
				t.Errorf("DeleteOrphan: %v", err)
			}
			if diff := cmp.Diff(before, w.look(t)); diff != "" {
				t.Errorf("something was changed (-before +after)\n%s", diff)
			}
		})
	}
}

// failedDeletion leaves a used volume whose wipe has begun.
func failedDeletion(t *testing.T, p *process, id string) {
	t.Helper()
	markUsed(t, p, id, "")
	p.lvm.SetHook(func(_ context.Context, c lvmfake.Call) error {
		if c.Op == lvmfake.OpZero {
			return blockdev.ErrBusy
		}
		return nil
	})
	if err := deleteVolume(t, p, id); err == nil {
		t.Fatal("the deletion did not fail")
	}
}

func TestDeleteOrphan_OnlyConfirmed(t *testing.T) {
	w := newWorld(t, worldOptions{})
	p := w.start(t)
	mustCreate(t, p, createReq("pvc-1", "thick", mib))
	if err := p.DeleteOrphan(t.Context(), candidate(t, p), nil); !errors.Is(err, orphans.ErrNotOrphan) {
		t.Errorf("a volume in order: %v", err)
	}
	v := mark(t, p, candidate(t, p), false, orphanSince)
	if err := p.DeleteOrphan(t.Context(), v, func(context.Context) error { return orphans.ErrExists }); !errors.Is(err, orphans.ErrExists) {
		t.Errorf("not confirmed: %v", err)
	}
	v = candidate(t, p)
	// While it is asked, no call for the volume can begin.
	err := p.DeleteOrphan(t.Context(), v, func(context.Context) error {
		_, err := p.controller.CreateVolume(t.Context(), createReq("pvc-1", "thick", mib))
		wantCode(t, "CreateVolume meanwhile", err, codes.Aborted)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if left := slices.Collect(maps.Keys(w.look(t)["vg-a"].Volumes)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestMarkVolume_WaitsForNoCall(t *testing.T) {
	w := newWorld(t, worldOptions{})
	p := w.start(t)
	mustCreate(t, p, createReq("pvc-1", "thick", mib))
	v := candidate(t, p)
	err := p.operations.run(t.Context(), "pvc-1", "creation", func(ctx, _ context.Context) error {
		return p.MarkVolume(ctx, v, false, orphanSince)
	})
	if !errors.Is(err, errBusy) {
		t.Errorf("MarkVolume during a call: %v", err)
	}
}

// Somebody's data is wiped like that of a volume that Kubernetes deletes, and not
// while it is open.
func TestDeleteOrphan_WipesWhatWasUsed(t *testing.T) {
	w := newWorld(t, worldOptions{Devices: true})
	p := w.start(t)
	created := mustCreate(t, p, createReq("pvc-1", "thick", mib))
	used := markUsed(t, p, created.GetVolumeId(), "")
	fill(t, used.Path, used.SizeBytes)
	v := mark(t, p, candidate(t, p), false, orphanSince)
	confirmed := func(context.Context) error { return nil }
	if err := w.machine.SetOpen(used.Ref(), 1); err != nil {
		t.Fatal(err)
	}
	if err := p.DeleteOrphan(t.Context(), v, confirmed); !errors.Is(err, errPrecondition) {
		t.Errorf("an open volume: %v", err)
	}
	if err := w.machine.SetOpen(used.Ref(), 0); err != nil {
		t.Fatal(err)
	}
	if err := p.DeleteOrphan(t.Context(), v, confirmed); err != nil {
		t.Fatal(err)
	}
	next := mustCreate(t, p, createReq("pvc-2", "thick", mib))
	if n := dirty(t, markUsed(t, p, next.GetVolumeId(), "").Path); n > 0 {
		t.Errorf("the next tenant reads %d bytes of the orphan", n)
	}
}

func TestOrphanCandidates_LeaveOthersOut(t *testing.T) {
	w := newWorld(t, worldOptions{Devices: true})
	p := w.start(t)
	id := mustCreate(t, p, createReq("pvc-1", "thick", mib)).GetVolumeId()
	failedDeletion(t, p, id)
	if found, err := p.OrphanCandidates(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("a volume that is being deleted: %+v, %v", found, err)
	}
}

// A slot that an orphan has is none that Kubernetes can give to a volume.
func TestOrphan_TakesASlot(t *testing.T) {
	group := func(tags ...string) *lvm.State {
		own := []string{"csi-local/driver=d", "csi-local/name=v", "csi-local/pool=p", "csi-local/state=new"}
		return &lvm.State{VolumeGroups: []lvm.VolumeGroup{{
			Name: "vg", MaxLogicalVolumes: 10, MetadataFreeBytes: -1,
			LogicalVolumes: []lvm.LogicalVolume{{VolumeGroup: "vg", Name: "v", Tags: append(own, tags...)}},
		}}}
	}
	pools := []poolconfig.Pool{{Name: "p", VolumeGroup: "vg"}}
	for state, want := range map[*lvm.State]int64{group(): 10, group("csi-local/orphan=2030-01-02T03:04:05Z"): 9} {
		if got, known := newInventory("d", state).slots(pools); got != want || !known {
			t.Errorf("%d slots, known %v, want %d", got, known, want)
		}
	}
}
