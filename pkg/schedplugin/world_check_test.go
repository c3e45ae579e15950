package schedplugin

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/go-cmp/cmp"
)

// books are all figures of a ledger, for comparison.
func (l *Ledger) books() map[string]int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	out := map[string]int64{}
	put := func(value int64, format string, args ...any) {
		if value != 0 {
			out[fmt.Sprintf(format, args...)] = value
		}
	}
	for name, b := range l.nodes {
		put(b.anyPool, "%s any", name)
		put(int64(b.slots.inline), "%s inline", name)
		put(int64(len(b.volumes)), "%s volumes", name)
		for _, p := range b.pools {
			put(p.limit, "%s %s limit", name, p.name)
			put(p.used, "%s %s used", name, p.name)
			put(p.ephemeral, "%s %s ephemeral", name, p.name)
		}
	}
	for kind, n := range l.kinds {
		put(int64(n), "%v pools", kind)
	}
	for node, offers := range l.offers {
		put(int64(len(offers)), "%s offers", node)
	}
	for pool, t := range l.totals {
		put(t.allocatable, "%s total allocatable", pool)
		put(t.used, "%s total used", pool)
		put(t.reserved, "%s total reserved", pool)
		put(int64(t.nodes), "%s nodes", pool)
	}
	for k, e := range l.entries {
		for _, c := range e.charges {
			put(c.bytes, "%s on %s in %s", k, c.node, c.pool)
		}
	}
	return out
}

// check holds the books to themselves: sums are the sums of their parts.
func (w *world) check() {
	l := w.ledger
	l.mu.RLock()
	defer l.mu.RUnlock()
	sums := map[[2]string]int64{}
	for k, e := range l.entries {
		if e.empty() {
			w.t.Fatalf("step %d: empty entry %s", w.steps, k)
		}
		for _, c := range e.charges {
			sums[[2]string{c.node, c.pool}] += c.bytes
		}
	}
	for name, b := range l.nodes {
		if b.anyPool != sums[[2]string{name, anyPool}] {
			w.t.Fatalf("step %d: %s: %d bytes in any pool, entries say %d", w.steps, name, b.anyPool, sums[[2]string{name, anyPool}])
		}
		for _, p := range b.pools {
			if p.used != sums[[2]string{name, p.name}] || p.used < 0 || p.ephemeral < 0 || p.ephemeral > p.used {
				w.t.Fatalf("step %d: %s %s: used %d, entries say %d, ephemeral %d", w.steps, name, p.name, p.used, sums[[2]string{name, p.name}], p.ephemeral)
			}
		}
	}
	for uid, h := range l.holders {
		for _, k := range h.keys {
			if !slices.ContainsFunc(l.entries[k].holds, func(x hold) bool { return x.pod == uid }) {
				w.t.Fatalf("step %d: %s holds %s without a hold", w.steps, uid, k)
			}
		}
	}
}

// haunted tells of charges for volumes that were not seen, or not seen to grow,
// before their claims were deleted.
func (l *Ledger) haunted() bool {
	for _, e := range l.entries {
		if slices.ContainsFunc(e.holds, func(h hold) bool { return h.volume != "" }) {
			return true
		}
		if e.claim == nil && e.deleted != nil && slices.ContainsFunc(e.volumes, func(v volumeFact) bool {
			return !v.released && v.name == e.deleted.volumeName && v.demand.requestedBytes < e.deleted.requestedBytes
		}) {
			return true
		}
	}
	return false
}

// checkRebuilt compares with a ledger that is built from the caches (I4, I5).
func (w *world) checkRebuilt() {
	for len(w.forLedger) > 0 {
		w.tellLedger()
	}
	if w.classGone() || len(w.ledger.holders) > 0 || w.ledger.haunted() {
		return
	}
	fresh := NewLedger(LedgerOptions{Driver: testDriver, Caches: w.cachesFor()})
	w.syncAll(fresh)
	if anew, kept := fresh.books(), w.ledger.books(); !maps.Equal(anew, kept) {
		w.t.Fatalf("step %d: books differ from those built anew (-new +kept):\n%s", w.steps, cmp.Diff(anew, kept))
	}
	w.happened["rebuilt"]++
}

func (w *world) classGone() bool {
	for _, c := range worldClasses {
		if _, ok, err := w.caches[streamClasses].GetByKey(c.name); err != nil || !ok {
			return true
		}
	}
	return false
}
