package orphans

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// many adds volumes that had their PersistentVolume, and one leaked one.
func (b *bench) many(count int) {
	for i := range count {
		b.add(fmt.Sprintf("pvc-%d", i), true, used)
	}
	b.add("leaked", false, nil)
}

// lose removes all PersistentVolumes and returns what they were.
func (b *bench) lose(count int) map[string]Answer {
	lost := map[string]Answer{}
	for i := range count {
		name := fmt.Sprintf("pvc-%d", i)
		lost[name] = b.api.volumes[name]
		delete(b.api.volumes, name)
	}
	return lost
}

func (b *bench) wantOrphans(count int) {
	b.t.Helper()
	n := 0
	for _, v := range b.node.volumes {
		if v.IsOrphan() {
			n++
		}
	}
	if n != count {
		b.t.Errorf("after %v: %d orphans, want %d", b.clock, n, count)
	}
}

func TestErrors_DecideNothing(t *testing.T) {
	b := newBench(t, nil)
	b.many(5)
	b.api.err = errDown
	b.pass(10 * time.Hour)
	b.wantOrphans(0)
	b.wantTold()
	if b.held() {
		t.Error("an API server that is gone says nothing that could be doubted")
	}
	b.api.err = nil
	b.pass(3 * time.Minute)
	b.wantOrphans(1)
}

// Whoever makes PersistentVolumes could not ask either, and needs time again.
func TestErrors_BeginTheGraceAnew(t *testing.T) {
	b := newBench(t, nil)
	b.add("pvc-1", false, nil)
	b.pass(55 * time.Minute)
	b.wantOrphan("pvc-1", true)
	b.api.err = errDown
	b.pass(10 * time.Minute)
	b.api.err = nil
	b.pass(55 * time.Minute)
	b.wantDeleted()
	b.pass(10 * time.Minute)
	b.wantDeleted("pvc-1")
}

func TestErrors_OfAMomentDoNot(t *testing.T) {
	b := newBench(t, nil)
	b.add("pvc-1", false, nil)
	b.pass(55 * time.Minute)
	b.api.err = errDown
	b.pass(time.Minute)
	b.api.err = nil
	b.pass(15 * time.Minute)
	b.wantDeleted("pvc-1")
}

// Another cluster's API server, or one whose etcd is empty, has no Node of ours.
func TestNoNode_DecidesNothing(t *testing.T) {
	b := newBench(t, nil)
	b.many(5)
	b.pass(2 * time.Hour)
	b.wantDeleted("leaked")
	b.add("leaked", false, nil)
	b.told = nil
	b.api.uid = ""
	lost := b.lose(5)
	b.pass(10 * time.Hour)
	b.wantOrphans(0)
	b.wantTold("OrphansHeld")
	if !b.held() {
		t.Error("the metric says that nothing is held")
	}
	if _, err := b.keeper.Delete(t.Context(), "leaked"); !errors.Is(err, ErrNotOrphan) {
		t.Errorf("deleted by hand: %v", err)
	}
	b.api.uid, b.api.volumes = "u1", lost
	b.pass(3 * time.Hour)
	b.wantDeleted("leaked", "leaked")
	b.wantOrphans(0)
	if b.held() {
		t.Error("the metric says that something is held")
	}
}

func TestNoNode_StopsADeletionByHand(t *testing.T) {
	b := newBench(t, nil)
	b.add("pvc-1", false, nil)
	b.pass(10 * time.Minute)
	for uid, err := range map[string]error{"": nil, "u1": errDown} {
		b.api.uid, b.api.err = uid, err
		if _, err := b.keeper.Delete(t.Context(), "pvc-1"); !errors.Is(err, ErrDoubt) {
			t.Errorf("UID %q, %v: deleted by hand: %v", uid, b.api.err, err)
		}
	}
	b.api.uid, b.api.err = "u1", nil
	if _, err := b.keeper.Delete(t.Context(), "vg/pvc-1"); err != nil {
		t.Error(err)
	}
	b.wantDeleted("pvc-1")
}

// A Node made anew may be that of a cluster made anew: what had a
// PersistentVolume gets the hold to find it again.
func TestNodeMadeAnew_HoldsForAWhile(t *testing.T) {
	b := newBench(t, nil)
	b.add("first", false, nil)
	b.pass(2 * time.Minute)
	b.wantOrphan("first", true)
	b.api.uid = "u2"
	b.add("second", false, nil)
	b.pass(55 * time.Minute)
	b.wantOrphan("second", false)
	b.wantNext("first", "kept while the API server's answers are in doubt")
	b.pass(8 * time.Minute)
	b.wantOrphan("second", true)
	b.wantDeleted()
	b.pass(50 * time.Minute)
	b.wantDeleted()
	b.pass(15 * time.Minute)
	if len(b.node.deleted) != 2 {
		t.Errorf("deleted %v", b.node.deleted)
	}
	b.wantTold("OrphanQuarantined", "OrphansHeld", "OrphanQuarantined", "OrphanDeleted", "OrphanDeleted")
}

// An API server that was restored from an old backup knows the Node and not the
// volumes of later days.
func TestMostLost_HoldsForAWhile(t *testing.T) {
	b := newBench(t, nil)
	b.many(10)
	b.pass(2 * time.Minute)
	lost := b.lose(10)
	b.pass(50 * time.Minute)
	b.wantOrphans(1) // the leaked one
	b.wantDeleted()
	b.wantTold("OrphanQuarantined", "OrphansHeld")
	b.wantNext("leaked", "in doubt")
	if !b.held() {
		t.Error("the metric says that nothing is held")
	}
	t.Run("and they come back", func(t *testing.T) {
		b.t = t
		for name, answer := range lost {
			b.api.volumes[name] = answer
		}
		b.pass(20 * time.Minute)
		b.wantOrphans(1)
		if b.held() {
			t.Error("the metric says that something is held")
		}
		b.wantDeleted() // its time begins when the doubt ends
		b.pass(time.Hour)
		b.wantDeleted("leaked")
	})
	t.Run("and they do not", func(t *testing.T) {
		b.t = t
		b.lose(10)
		b.add("leaked", false, nil)
		b.pass(2 * time.Hour)
		b.wantOrphans(11)
		b.wantDeleted("leaked")
		b.pass(10 * time.Hour)
		if len(b.node.volumes) != 10 {
			t.Errorf("deleted %v", b.node.deleted)
		}
	})
}

// That the others were there a moment before says nothing.
func TestMostLost_RightAfterALook(t *testing.T) {
	b := newBench(t, func(s *Settings) { s.Interval = 5 * time.Second })
	b.many(4)
	b.pass(10 * time.Minute)
	b.lose(4)
	b.pass(30 * time.Minute)
	b.wantOrphans(1) // the leaked one
	b.wantTold("OrphanQuarantined", "OrphansHeld")
}

func TestFewLost_AreBelieved(t *testing.T) {
	for _, tt := range []struct{ volumes, lost int }{{2, 2}, {10, 5}, {10, 1}} {
		b := newBench(t, nil)
		b.many(tt.volumes)
		delete(b.node.volumes, "uuid-leaked")
		b.pass(2 * time.Hour)
		b.lose(tt.lost)
		b.pass(2 * time.Hour)
		b.wantOrphans(tt.lost)
		b.wantDeleted()
	}
}

// Nothing is deleted on the word of an API server that has no volume at all where
// there should be one, be it only one.
func TestDeletion_NeedsAProofOfLife(t *testing.T) {
	b := newBench(t, func(s *Settings) { s.Interval = 1000 * time.Hour })
	b.many(2)
	b.pass(10 * time.Minute)
	b.lose(2)
	for range 60 {
		b.pass(time.Minute)
		if len(b.node.deleted) > 0 {
			b.wantOrphans(2)
			return
		}
	}
	b.pass(time.Hour)
	b.wantDeleted("leaked")
}
