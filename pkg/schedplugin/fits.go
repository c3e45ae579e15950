package schedplugin

import (
	"math"
	"slices"
)

// adjustment is what preemption's what-if changes for one volume on one node.
type adjustment struct {
	ledger *Ledger
	key    key
	node   string
	pool   string
	// bytes is negative for a volume that is thought away.
	bytes int64
}

// Fits tells whether the node has room for all wants together, beside what is
// charged to it, and why not. Wants that are charged to the node already are
// not counted again (but while they are only reserved, the node must not be
// overdrawn: its pool may have shrunk since). Wants that are on their way to
// another node do not fit. It allocates nothing unless it refuses.
func (l *Ledger) Fits(node string, wants Wants) (Shortage, bool) {
	short, _, ok := l.fits(node, wants.list, nil)
	return short, ok
}

// fits also returns the node's slots, which it does not judge by.
func (l *Ledger) fits(node string, wants []want, what []adjustment) (Shortage, slots, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	books := l.nodes[node]
	short, ok := l.judge(node, books, wants, what)
	if books == nil {
		return short, slots{}, ok
	}
	return short, books.slots, ok
}

// judge is Fits for callers that hold the lock and have the node's books.
func (l *Ledger) judge(node string, books *nodeBooks, wants []want, what []adjustment) (Shortage, bool) {
	for begin := 0; begin < len(wants); {
		pool := books.pool(wants[begin].demand.pool)
		g := l.group(node, pool, wants, begin, what)
		switch {
		case g.elsewhere:
			return Shortage{Reason: ReasonPlacedElsewhere}, false
		case g.count > 0 && (books == nil || !books.slots.registered):
			return Shortage{Reason: ReasonDriverNotRegistered}, false
		case g.count > 0 || g.reserved:
			short, ok := l.room(node, books, wants[begin].demand.pool, g.requested, what)
			if !ok && (len(l.offers[node]) == 0 || !l.roomWithOffers(node, wants, begin, g.end, what)) {
				return short, false
			}
		}
		begin = g.end
	}
	return Shortage{}, true
}

// group is what the wants for one pool come to on a node.
type group struct {
	// end is the index of the first want after them.
	end int
	// requested are the bytes, and count the number, of those that are not
	// charged to the node yet.
	requested int64
	count     int
	// reserved: one is charged to the node for a reservation, and nothing in the
	// API says that it will be there.
	reserved bool
	// elsewhere: one is placed on another node.
	elsewhere bool
}

// group sums up the wants for one pool, from begin on; its books may be nil.
func (l *Ledger) group(node string, pool *poolBook, wants []want, begin int, what []adjustment) (g group) {
	name := wants[begin].demand.pool
	for g.end = begin; g.end < len(wants) && wants[g.end].demand.pool == name; g.end++ {
		w := &wants[g.end]
		e := l.entryFor(w)
		here, reserved := e.chargedTo(node)
		g.reserved = g.reserved || reserved
		g.elsewhere = g.elsewhere || w.placedElsewhere(e, node, here)
		if !here && !nominated(w.key, l, node, what) {
			g.requested = saturatingAdd(g.requested, w.bytesOn(pool))
			g.count++
		}
	}
	return g
}

func saturatingAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// placedElsewhere tells whether the claim, as the books have it, names another
// node, or is bound to a volume on another. VolumeBinding refuses that as well;
// but its caches may lag behind these, and it would then bind another volume.
func (w *want) placedElsewhere(e *entry, node string, here bool) bool {
	if e == nil || e.claim == nil {
		return w.selectedNode != "" && w.selectedNode != node
	}
	if e.claim.volumeName != "" {
		return len(e.volumes) > 0 && !here
	}
	return e.claim.selectedNode != "" && e.claim.selectedNode != node
}

// chargedTo tells whether the volume is charged to the node, and whether only
// for a reservation. e may be nil.
func (e *entry) chargedTo(node string) (here, reserved bool) {
	if e == nil {
		return false, false
	}
	for i := range e.charges {
		if e.charges[i].node == node {
			here, reserved = true, reserved || e.charges[i].reserved
		}
	}
	return here, reserved
}

// nominated tells whether a pod that is nominated for the node wants the same
// volume: its bytes are in the what-if already.
func nominated(k key, l *Ledger, node string, what []adjustment) bool {
	for i := range what {
		if what[i].key == k && what[i].node == node && what[i].ledger == l {
			return true
		}
	}
	return false
}

// room compares: used + requested <= ratio × allocatable (A7).
func (l *Ledger) room(node string, books *nodeBooks, pool string, requested int64, what []adjustment) (Shortage, bool) {
	if books == nil || !books.fact.published {
		return Shortage{Reason: ReasonCapacityUnknown, Pool: pool}, false
	}
	book := books.pool(pool)
	if book == nil || !book.known {
		reason := ReasonPoolMissing
		if books.fact.err != nil || books.fact.bad[pool] != nil {
			reason = ReasonCapacityUnreadable
		}
		return Shortage{Reason: reason, Pool: pool}, false
	}
	left := book.limit - book.used - books.anyPool
	for i := range what {
		if what[i].node == node && what[i].ledger == l && (what[i].pool == pool || what[i].pool == anyPool) {
			left -= what[i].bytes
		}
	}
	if requested <= left {
		return Shortage{}, true
	}
	return Shortage{Reason: ReasonInsufficientCapacity, Pool: pool, Requested: requested, Left: left,
		Allocatable: book.allocatable, Ratio: l.ratio(pool), Preemptible: requested-left <= book.ephemeral}, false
}

// remaining is what the pool has left on the node once the wants for it are
// placed there, for every pool that is wanted, in the order of their names.
// visit is called under the ledger's lock and must not call back.
func (l *Ledger) remaining(node string, wants []want, visit func(pool string, bytes int64)) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	books := l.nodes[node]
	for begin := 0; begin < len(wants); {
		book := books.pool(wants[begin].demand.pool)
		g := l.group(node, book, wants, begin, nil)
		begin = g.end
		if book != nil {
			visit(book.name, max(book.limit-book.used-books.anyPool-g.requested, 0))
		}
	}
}

// anyInline tells whether the driver has inline volumes anywhere.
func (l *Ledger) anyInline() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.inline > 0
}

// chargesOn are the charges of k on the node.
func (l *Ledger) chargesOn(k key, node string) []charge {
	l.mu.RLock()
	defer l.mu.RUnlock()
	e, ok := l.entries[k]
	if !ok {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(e.charges), func(c charge) bool { return c.node != node })
}
