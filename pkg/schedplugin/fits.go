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
	return l.fits(node, wants.list, nil)
}

func (l *Ledger) fits(node string, wants []want, what []adjustment) (Shortage, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.judge(node, wants, what)
}

// judge is Fits for callers that hold the lock.
func (l *Ledger) judge(node string, wants []want, what []adjustment) (Shortage, bool) {
	for i := range wants {
		if l.placedElsewhere(&wants[i], node) {
			return Shortage{Reason: ReasonPlacedElsewhere}, false
		}
	}
	books := l.nodes[node]
	for begin := 0; begin < len(wants); {
		end, requested, count := l.group(node, books, wants, begin, what)
		if count > 0 && !books.registered() {
			return Shortage{Reason: ReasonDriverNotRegistered}, false
		}
		if count > 0 || l.onlyReserved(node, wants[begin:end]) {
			if short, ok := l.room(node, books, wants[begin].demand.pool, requested, what); !ok {
				if len(l.offers[node]) == 0 || !l.roomWithOffers(node, wants, begin, end, what) {
					return short, false
				}
			}
		}
		begin = end
	}
	return Shortage{}, true
}

func (b *nodeBooks) registered() bool { return b != nil && b.attachable.registered }

// group sums up the wants for one pool, from begin to end.
func (l *Ledger) group(node string, books *nodeBooks, wants []want, begin int, what []adjustment) (end int, requested int64, count int) {
	pool := wants[begin].demand.pool
	for end = begin; end < len(wants) && wants[end].demand.pool == pool; end++ {
		if l.counts(&wants[end], node, what) {
			requested = saturatingAdd(requested, wants[end].bytesOn(books))
			count++
		}
	}
	return end, requested, count
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
func (l *Ledger) placedElsewhere(w *want, node string) bool {
	e, ok := l.entries[w.key]
	if !ok || e.claim == nil {
		return w.selectedNode != "" && w.selectedNode != node
	}
	if e.claim.volumeName != "" {
		return len(e.volumes) > 0 && !l.chargedTo(w.key, node)
	}
	return e.claim.selectedNode != "" && e.claim.selectedNode != node
}

// counts tells whether the want needs bytes of the node that are not charged yet.
func (l *Ledger) counts(w *want, node string, what []adjustment) bool {
	if l.chargedTo(w.key, node) {
		return false
	}
	for i := range what {
		if what[i].key == w.key && what[i].node == node && what[i].ledger == l {
			return false // a nominated pod shares the claim
		}
	}
	return true
}

// onlyReserved tells whether one of the wants is charged to the node for a
// reservation, and nothing in the API says that it will be there.
func (l *Ledger) onlyReserved(node string, wants []want) bool {
	for i := range wants {
		e, ok := l.entries[wants[i].key]
		if !ok {
			continue
		}
		for j := range e.charges {
			if e.charges[j].node == node && e.charges[j].reserved {
				return true
			}
		}
	}
	return false
}

func (l *Ledger) chargedTo(k key, node string) bool {
	e, ok := l.entries[k]
	if !ok {
		return false
	}
	for i := range e.charges {
		if e.charges[i].node == node {
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
	book, ok := books.pools[pool]
	if !ok || !book.known {
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
		pool := wants[begin].demand.pool
		end, requested, _ := l.group(node, books, wants, begin, nil)
		begin = end
		if books == nil {
			continue
		}
		if book, ok := books.pools[pool]; ok {
			visit(pool, max(book.limit-book.used-books.anyPool-requested, 0))
		}
	}
}

// slots are what the node's CSINode says of the driver, and how many inline
// volumes are charged to the node.
func (l *Ledger) slots(node string) (limit attachable, inline int) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	books := l.nodes[node]
	if books == nil {
		return attachable{}, 0
	}
	return books.attachable, books.inline
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
