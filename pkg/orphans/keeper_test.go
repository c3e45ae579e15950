package orphans

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// A creation whose claim was deleted meanwhile leaves a volume that nobody asks
// for any more (kubernetes-csi/external-provisioner#1449).
func TestLeaked_IsMarkedWithinTwoMinutesAndDeletedAfterTheGrace(t *testing.T) {
	b := newBench(t, nil)
	b.pass(time.Minute)
	b.add("pvc-1", false, nil)
	b.pass(59 * time.Second)
	b.wantOrphan("pvc-1", false)
	b.pass(50 * time.Second) // and some to publish it
	b.wantOrphan("pvc-1", true)
	b.wantTold("OrphanQuarantined")
	b.wantNext("pvc-1", "deleted in ")
	if v := b.volume("pvc-1"); v.Kind() != Leaked || v.Orphan.IsZero() {
		t.Errorf("%+v", v)
	}
	if got := b.series("csi_local_orphan_bytes"); len(got) != 1 || got["leaked ssd"] != 16 {
		t.Errorf("bytes of orphans %v", got)
	}
	b.pass(57 * time.Minute)
	b.wantDeleted()
	b.pass(6 * time.Minute)
	b.wantDeleted("pvc-1")
	b.wantTold("OrphanQuarantined", "OrphanDeleted")
	if got := b.series("csi_local_orphans"); len(got) != 0 {
		t.Errorf("series of orphans are left: %v", got)
	}
}

func TestLeaked_IsKeptIfThePolicySaysSo(t *testing.T) {
	b := newBench(t, func(s *Settings) { s.Policy = PolicyKeep })
	b.add("pvc-1", false, nil)
	b.pass(48 * time.Hour)
	b.wantOrphan("pvc-1", true)
	b.wantDeleted()
	b.wantNext("pvc-1", "kept until an operator decides")
}

func TestLeaked_LateVolumeBringsItBack(t *testing.T) {
	b := newBench(t, nil)
	b.add("pvc-1", false, nil)
	b.pass(50 * time.Minute)
	b.wantOrphan("pvc-1", true)
	b.appear("pvc-1")
	b.pass(2 * time.Minute)
	b.wantOrphan("pvc-1", false)
	b.wantTold("OrphanQuarantined", "OrphanReturned")
	delete(b.api.volumes, "pvc-1")
	b.pass(24 * time.Hour)
	b.wantOrphan("pvc-1", true)
	b.wantDeleted() // it had one
}

// The last question is asked when nothing else can touch the volume.
func TestLeaked_VolumeThatAppearsInTheLastMoment(t *testing.T) {
	b := newBench(t, nil)
	b.add("pvc-1", false, nil)
	b.node.beforeDelete = func() { b.appear("pvc-1") }
	b.pass(3 * time.Hour)
	b.wantOrphan("pvc-1", false)
	b.wantDeleted()
}

func TestLeaked_CreateVolumeTakesItOver(t *testing.T) {
	b := newBench(t, nil)
	b.add("pvc-1", false, nil)
	for range 10 { // each call begins anew
		b.pass(45 * time.Minute)
		v := b.volume("pvc-1")
		v.Orphan = time.Time{}
		b.node.volumes[v.UUID] = v
	}
	b.wantDeleted()
	b.pass(2 * time.Hour)
	b.wantDeleted("pvc-1")
}

func TestRetained_IsKept(t *testing.T) {
	for name, change := range map[string]func(*Volume){
		"seen": func(v *Volume) { v.Seen = true }, "used": used,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.add("pvc-1", true, change)
			b.pass(24 * time.Hour)
			b.wantOrphan("pvc-1", false)
			delete(b.api.volumes, "pvc-1")
			b.pass(2 * time.Hour)
			b.wantOrphan("pvc-1", true)
			b.pass(50 * time.Hour)
			b.wantDeleted()
			b.wantTold("OrphanQuarantined")
			b.wantNext("pvc-1", "kept until an operator decides")
			b.appear("pvc-1")
			b.pass(2 * time.Minute)
			b.wantOrphan("pvc-1", false)
		})
	}
}

// A volume that no pod used is marked once its PersistentVolume was seen; one that
// was used needs no mark, and costs LVM nothing.
func TestSeen_IsWrittenOnceAndOnlyIfNeeded(t *testing.T) {
	b := newBench(t, nil)
	b.add("pvc-1", true, nil)
	b.add("pvc-2", true, used)
	b.pass(5 * time.Hour)
	if v := b.volume("pvc-1"); !v.Seen {
		t.Errorf("%+v", v)
	}
	if v := b.volume("pvc-2"); v.Seen {
		t.Errorf("%+v", v)
	}
	b.wantTold()
}

func TestCache_IsBelievedOnlyWithWhatItHas(t *testing.T) {
	b := newBench(t, nil)
	b.add("pvc-1", true, nil)
	b.api.cache = map[string]Answer{} // behind: it has not heard of it
	b.pass(5 * time.Hour)
	b.wantOrphan("pvc-1", false)
	b.api.cache["pvc-1"] = b.api.volumes["pvc-1"]
	delete(b.api.volumes, "pvc-1") // behind: it has not heard that it is gone
	b.pass(5 * time.Hour)
	b.wantOrphan("pvc-1", false)
	b.api.cache = nil
	b.pass(2 * time.Hour)
	b.wantOrphan("pvc-1", true)
}

// A PersistentVolume of that name for another volume: no byte of ours is counted
// by it, and what it means is for a person to find out.
func TestForeign_IsKeptAndReported(t *testing.T) {
	for name, answer := range map[string]Answer{
		"another handle": {Found: true, Driver: testDriver, Handle: "vg/other"},
		"another driver": {Found: true, Driver: "other.example", Handle: "vg/pvc-1"},
		"no CSI volume":  {Found: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.add("pvc-1", false, nil)
			b.api.volumes["pvc-1"] = answer
			b.pass(2 * time.Minute)
			b.wantOrphan("pvc-1", true)
			b.wantNext("pvc-1", "is that of another volume")
			if _, err := b.keeper.Delete(t.Context(), "pvc-1"); !errors.Is(err, ErrExists) {
				t.Errorf("deleted by hand: %v", err)
			}
			delete(b.api.volumes, "pvc-1")
			b.pass(48 * time.Hour)
			b.wantDeleted()
		})
	}
}

func TestNames_ThatNoProvisionerGives(t *testing.T) {
	b := newBench(t, nil)
	b.add("Volume of an administrator", false, nil)
	b.pass(5 * time.Hour)
	if len(b.api.asked) > 0 {
		t.Errorf("asked %v", b.api.asked)
	}
}

func TestBusyVolume_IsLookedAtAgain(t *testing.T) {
	b := newBench(t, nil)
	b.add("pvc-1", false, nil)
	b.node.err = errors.New("a call for it is running")
	b.pass(time.Hour)
	b.wantOrphan("pvc-1", false)
	b.node.err = nil
	b.pass(time.Minute)
	b.wantOrphan("pvc-1", true)
}

func TestRestart_KeepsWhatWasFoundOut(t *testing.T) {
	b := newBench(t, nil)
	b.add("pvc-1", false, nil)
	b.add("pvc-2", true, nil)
	for range 5 { // the grace begins anew with each process
		b.pass(50 * time.Minute)
		b.restart(nil)
		b.wantOrphan("pvc-1", true)
	}
	b.wantDeleted()
	delete(b.api.volumes, "pvc-2")
	b.pass(3 * time.Hour)
	b.wantDeleted("pvc-1")
	b.wantOrphan("pvc-2", true)
}

// 500 volumes with their PersistentVolumes: one request each in an hour, never two
// at once, and no burst when the API server comes back.
func TestLooks_AreGentle(t *testing.T) {
	const count = 200
	b := newBench(t, nil)
	for i := range count {
		b.add(fmt.Sprintf("pvc-%d", i), true, used)
	}
	b.pass(time.Hour)
	if n := len(b.api.asked); n < count*9/10 || n > count*3/2 {
		t.Errorf("%d requests in the first hour", n)
	}
	for _, r := range b.api.asked {
		if !r.cached {
			t.Fatalf("%+v was not asked of the cache", r)
		}
	}
	wantSpread := func() {
		t.Helper()
		perMinute := map[int]int{}
		for _, r := range b.api.asked {
			perMinute[int(r.at/time.Minute)]++
		}
		for minute, n := range perMinute {
			if n > count/10 {
				t.Errorf("%d requests in minute %d", n, minute)
			}
		}
	}
	wantSpread()
	b.api.err, b.api.asked = errDown, nil
	b.pass(3 * time.Hour)
	if n := len(b.api.asked); n > 4*180+10 {
		t.Errorf("%d requests to a server that was gone for three hours", n)
	}
	b.api.err, b.api.asked = nil, nil
	b.pass(time.Hour)
	wantSpread()
	if n := len(b.api.asked); n < count/2 {
		t.Errorf("only %d requests in the hour after", n)
	}
	if b.told != nil || slices.ContainsFunc(b.api.asked, func(r request) bool { return !r.cached }) {
		t.Errorf("told %v", b.told)
	}
}
