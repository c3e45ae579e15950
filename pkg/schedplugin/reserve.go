package schedplugin

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// want is one volume that a pod needs and that is not there yet.
type want struct {
	key    key
	demand demand
	// defaultBytes is what it takes from a pool with extents of the default size.
	defaultBytes int64
	// selectedNode is the node that the claim names already, if it does.
	selectedNode string
	// match tells which existing volumes VolumeBinding may bind the claim to;
	// nil for inline volumes.
	match *match
}

// match is what VolumeBinding compares when it looks for an existing volume.
type match struct {
	class       string
	block       bool
	bytes       int64
	accessModes []v1.PersistentVolumeAccessMode
	selector    labels.Selector
}

func (m match) fits(o offer) bool {
	return m.class == o.class && m.block == o.block && o.bytes >= m.bytes && m.selector.Matches(labels.Set(o.labels)) &&
		!slices.ContainsFunc(m.accessModes, func(mode v1.PersistentVolumeAccessMode) bool { return !slices.Contains(o.accessModes, mode) })
}

// bytesOn is what the wanted volume takes from its pool on the node.
func (w *want) bytesOn(books *nodeBooks) int64 {
	if books.extentSize(w.demand.pool) == defaultExtentSizeBytes {
		return w.defaultBytes
	}
	bytes, err := w.demand.poolBytes(books.extentSize(w.demand.pool))
	if err != nil {
		return w.demand.requestedBytes
	}
	return bytes
}

// shortage says why wants do not fit a node.
type shortage struct {
	reason string // one of the Reason constants
	pool   string
	// Figures in bytes, for ReasonInsufficientCapacity; in volumes for ReasonTooManyVolumes.
	requested, left, allocatable int64
	// preemptible: enough of it would be freed if pods with ephemeral volumes went.
	preemptible bool
}

// adjustment is what preemption's what-if changes on one node, in bytes per pool.
type adjustment struct {
	pool    string
	bytes   int64
	volumes int64
}

// fits tells whether the node has room for all wants together, beside what is
// charged to it. Wants that are charged to the node already are not counted
// again; those that are on their way to another node are not this plugin's to
// judge. wants must be sorted by pool. It allocates nothing unless it refuses.
func (l *Ledger) fits(node string, wants []want, adjustments []adjustment) (shortage, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.fitsLocked(node, wants, adjustments)
}

func (l *Ledger) fitsLocked(node string, wants []want, adjustments []adjustment) (shortage, bool) {
	books := l.nodes[node]
	var volumes int64
	for begin := 0; begin < len(wants); {
		pool := wants[begin].demand.pool
		end, requested := begin, int64(0)
		for ; end < len(wants) && wants[end].demand.pool == pool; end++ {
			w := &wants[end]
			if w.selectedNode != "" && w.selectedNode != node || l.chargedTo(w.key, node) {
				continue
			}
			requested += w.bytesOn(books)
			volumes++
		}
		if requested > 0 {
			if short, ok := books.room(pool, requested, adjustments); !ok {
				offered := l.offered(node, wants[begin:end])
				if short, ok = books.room(pool, requested-offered, adjustments); !ok && offered < requested {
					return short, false
				}
			}
		}
		begin = end
	}
	if volumes > 0 {
		return books.slots(volumes, adjustments)
	}
	return shortage{}, true
}

func (l *Ledger) chargedTo(k key, node string) bool {
	e, ok := l.entries[k]
	return ok && slices.ContainsFunc(e.charges, func(c charge) bool { return c.node == node })
}

// room compares: used + requested <= ratio × allocatable.
func (b *nodeBooks) room(pool string, requested int64, adjustments []adjustment) (shortage, bool) {
	if b == nil || !b.fact.published {
		return shortage{reason: ReasonCapacityUnknown, pool: pool}, false
	}
	book, ok := b.pools[pool]
	if !ok || !book.known {
		reason := ReasonPoolMissing
		if b.fact.err != nil || b.fact.bad[pool] != nil {
			reason = ReasonCapacityUnreadable
		}
		return shortage{reason: reason, pool: pool}, false
	}
	used := book.used
	for _, a := range adjustments {
		if a.pool == pool {
			used += a.bytes
		}
	}
	left := book.limit - used
	if requested <= left {
		return shortage{}, true
	}
	return shortage{reason: ReasonInsufficientCapacity, pool: pool, requested: requested, left: left,
		allocatable: book.allocatable, preemptible: requested-left <= book.ephemeral}, false
}

// slots compares the count of volumes with what the node's CSINode allows.
func (b *nodeBooks) slots(volumes int64, adjustments []adjustment) (shortage, bool) {
	if !b.attachable.registered {
		return shortage{reason: ReasonDriverNotRegistered}, false
	}
	used := b.volumes
	for _, a := range adjustments {
		used += a.volumes
	}
	if b.attachable.count < 0 || used+volumes <= b.attachable.count {
		return shortage{}, true
	}
	return shortage{reason: ReasonTooManyVolumes, requested: volumes, left: b.attachable.count - used,
		allocatable: b.attachable.count, preemptible: true}, false
}

// offered is how many of the wanted bytes VolumeBinding can take from volumes
// that exist on the node and are bound to no claim, each for one claim at most.
// Those volumes are charged already.
func (l *Ledger) offered(node string, wants []want) int64 {
	if len(l.offers[node]) == 0 {
		return 0
	}
	books := l.nodes[node]
	taken := map[key]bool{}
	var bytes int64
	for i := range wants {
		w := &wants[i]
		if w.match == nil || w.selectedNode != "" || l.chargedTo(w.key, node) {
			continue
		}
		if k, ok := l.smallestOffer(node, *w.match, taken); ok {
			taken[k] = true
			bytes += w.bytesOn(books)
		}
	}
	return bytes
}

// smallestOffer picks as VolumeBinding does: the smallest volume that matches.
func (l *Ledger) smallestOffer(node string, m match, taken map[key]bool) (best key, found bool) {
	var bytes int64
	for k := range l.offers[node] {
		for _, v := range l.entries[k].volumes {
			if v.offer == nil || taken[k] || !m.fits(*v.offer) {
				continue
			}
			if !found || v.offer.bytes < bytes || v.offer.bytes == bytes && k < best {
				best, bytes, found = k, v.offer.bytes, true
			}
		}
	}
	return best, found
}

// Reserve charges the pod's wants to the node for as long as its scheduling
// cycle lasts. It decides again, under the ledger's lock, whether they fit: what
// happened since Filter counts. It changes nothing if they do not. Repeating it
// changes nothing.
func (l *Ledger) Reserve(pod types.UID, node string, wants []want) (shortage, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if short, ok := l.fitsLocked(node, wants, nil); !ok {
		return short, false
	}
	now := l.now()
	for i := range wants {
		w := &wants[i]
		if w.selectedNode != "" && w.selectedNode != node {
			continue
		}
		if e, ok := l.entries[w.key]; ok && (len(e.volumes) > 0 || e.inline != nil) {
			continue // it is there
		}
		if l.bindsToOffer(node, wants, i) {
			continue
		}
		e := l.entryOf(w.key)
		if !slices.ContainsFunc(e.holds, func(h hold) bool { return h.pod == pod && h.node == node }) {
			e.holds = append(e.holds, hold{pod: pod, node: node, demand: w.demand, inline: w.match == nil, since: now})
			l.holders[pod] = append(l.holders[pod], w.key)
		}
		l.recharge(w.key)
	}
	return shortage{}, true
}

// bindsToOffer tells whether VolumeBinding will take an existing volume for the
// i-th want. It looks for one for every claim, whether or not there is room.
func (l *Ledger) bindsToOffer(node string, wants []want, i int) bool {
	w := wants[i]
	if w.match == nil || w.selectedNode != "" || len(l.offers[node]) == 0 {
		return false
	}
	taken := map[key]bool{}
	for j := range i {
		if wants[j].match == nil {
			continue
		}
		if k, ok := l.smallestOffer(node, *wants[j].match, taken); ok {
			taken[k] = true
		}
	}
	_, ok := l.smallestOffer(node, *w.match, taken)
	return ok
}

// Unreserve takes back what the pod's scheduling cycle reserved. It is safe
// without a Reserve and may be repeated. If mayBeWritten is set, the cycle came
// so far that VolumeBinding may have written selected-node: claims of which the
// cache does not tell stay charged, and are returned, until [Ledger.Settle] or
// an event says what the API has.
func (l *Ledger) Unreserve(pod types.UID, mayBeWritten bool) (unsettled []types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range slices.Clone(l.holders[pod]) {
		e := l.entries[k]
		if mayBeWritten && e.claim != nil && e.claim.selectedNode == "" && e.claim.volumeName == "" {
			for i := range e.holds {
				if e.holds[i].pod == pod {
					e.holds[i].settling = true
				}
			}
			unsettled = append(unsettled, e.claim.uid)
			continue
		}
		l.dropHolds(k, func(h hold) bool { return h.pod == pod })
		l.recharge(k)
	}
	return unsettled
}

// Settle ends what Unreserve left open: the API was asked, and the claim names
// no node (or is gone). If it does name one, the claim's next event books it,
// and Settle must not be called.
func (l *Ledger) Settle(claim types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := claimKey(claim)
	l.dropHolds(k, func(h hold) bool { return h.settling })
	l.recharge(k)
}

// dropHolds removes reservations of k; the caller recharges it.
func (l *Ledger) dropHolds(k key, which func(hold) bool) {
	e, ok := l.entries[k]
	if !ok {
		return
	}
	kept := e.holds[:0]
	for _, h := range e.holds {
		if !which(h) {
			kept = append(kept, h)
			continue
		}
		rest := slices.DeleteFunc(l.holders[h.pod], func(other key) bool { return other == k })
		if len(rest) == 0 {
			delete(l.holders, h.pod)
		} else {
			l.holders[h.pod] = rest
		}
	}
	e.holds = kept
}
