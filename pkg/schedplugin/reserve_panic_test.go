package schedplugin

import (
	"context"
	"maps"
	"testing"
	"time"
)

// kubernetes/kubernetes#93830: Reserve panics half-way over the pod's volumes. kube-scheduler
// lets its process end then, and the next one builds its books from the API. Whoever
// catches it instead finds the ledger unlocked, and Unreserve takes back what was done.
func TestReserve_PanicHalfWayLeavesNothing(t *testing.T) {
	objects := baseObjects(makeClaim("a", "ssd", gib), makeClaim("b", "ssd-too", gib), makeClaim("c", "ssd", gib), makeClaim("all", "ssd", 10*gib))
	pod, other := makePod("p").claiming("a", "b", "c").inline("pool-ssd", gib), makePod("q").claiming("all")
	for volume := range 4 {
		for _, ends := range []bool{true, false} {
			f := newFixture(t, objects...)
			before, entries := f.ledger.books(), len(f.ledger.entries)
			state := f.reservePanics(pod, volume)
			f.wantUsed("half-way", "n1", "pool-ssd", int64(volume)*gib)
			if ends {
				f.restart()
			} else {
				f.unreserve(state, pod, "n1")
			}
			if after := f.ledger.books(); !maps.Equal(before, after) || len(f.ledger.entries) != entries {
				t.Errorf("at volume %d, process ends %v: books are %v with %d entries, were %v with %d", volume, ends, after, len(f.ledger.entries), before, entries)
			}
			if len(f.open) > 0 || len(f.ledger.holders)+len(f.ledger.holderNames) > 0 {
				t.Errorf("at volume %d, process ends %v: left behind: %v %v", volume, ends, f.open, f.ledger.holders)
			}
			f.reserve(other, "n1")
		}
	}
}

// The panic comes when the ledger is changed already.
func (f *fixture) reservePanics(pod podBuilder, volume int) (state *fakeState) {
	f.t.Helper()
	state, _, _ = f.filter(pod)
	calls := 0
	f.ledger.now = func() time.Time {
		if calls++; calls > volume {
			panic("half-way")
		}
		return time.Now()
	}
	defer func() {
		f.ledger.now = time.Now
		if recover() == nil {
			f.t.Error("Reserve did not panic")
		}
	}()
	f.plugin.Reserve(context.Background(), state, pod.Pod, "n1")
	return state
}
