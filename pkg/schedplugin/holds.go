package schedplugin

import (
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// hold is a reservation: a scheduling cycle of pod has chosen node.
type hold struct {
	pod    types.UID
	node   string
	demand demand
	inline bool
	since  time.Time
	// version is the claim's in the cache when the reservation was made. What
	// the cycle writes is based on that version or an older one, so once the
	// cache has another, the cycle has either written or can write no more.
	version string
	// settling is set once the cycle has ended, and whether it wrote is not
	// known yet: it counts such ends, from 1.
	settling uint64
	// offer is the volume that VolumeBinding is expected to bind the claim to.
	// If free is set the hold is charged nothing, because the offer is.
	offer key
	free  bool
}

// answeredBy tells that the claim itself says now what the hold was for: it
// names a node or a volume, or the cycle that is settling can write no more.
func (h *hold) answeredBy(c claimFact) bool {
	return c.selectedNode != "" || c.volumeName != "" || h.settling > 0 && c.version != h.version
}

// holder is a pod with reservations.
type holder struct {
	name types.NamespacedName
	keys []key
}

// Reserve charges the pod's wants to the node for as long as its scheduling
// cycle lasts. It decides again, under the ledger's lock, whether they fit: what
// happened since Filter counts. It changes nothing if they do not. Repeating it
// changes nothing.
func (l *Ledger) Reserve(pod *v1.Pod, node string, wants Wants) (Shortage, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// The claims must be in the books as the cache has them: see hold.version.
	for i := range wants.list {
		if c := wants.list[i].claim; c != nil {
			if err := l.syncClaim(types.NamespacedName{Namespace: c.Namespace, Name: c.Name}); err != nil {
				return Shortage{}, false, err
			}
		}
	}
	if short, ok := l.judge(node, wants.list, nil); !ok {
		return short, false, nil
	}
	var matched map[int]key
	if len(l.offers[node]) > 0 {
		matched = l.matchOffers(node, wants.list, nil)
	}
	full := l.fullPools(node, wants.list)
	var problems []error
	for i := range wants.list {
		if w := &wants.list[i]; l.counts(w, node, nil) {
			problems = append(problems, l.hold(pod, node, w, matched[i], full[w.demand.pool]))
		} else if w.selectedNode == "" || w.selectedNode == node {
			problems = append(problems, l.share(pod, node, w))
		}
	}
	return Shortage{}, true, errors.Join(problems...)
}

// fullPools are the pools that have no room for their wants without offers.
func (l *Ledger) fullPools(node string, wants []want) map[string]bool {
	full, books := map[string]bool{}, l.nodes[node]
	for begin := 0; begin < len(wants); {
		pool := wants[begin].demand.pool
		end, requested, count := l.group(node, books, wants, begin, nil)
		if count > 0 {
			_, ok := l.room(node, books, pool, requested, nil)
			full[pool] = !ok
		}
		begin = end
	}
	return full
}

// hold makes the reservation of one want. If VolumeBinding is expected to take
// an offer, the offer is taken; the bytes are reserved all the same as long as
// there are enough, because VolumeBinding may see it otherwise.
func (l *Ledger) hold(pod *v1.Pod, node string, w *want, offer key, full bool) error {
	return l.addHold(pod, w, hold{node: node, offer: offer, free: offer != "" && full})
}

// share holds a volume that is charged to the node already by another pod's
// reservation. One that the claim itself is charged for needs no hold.
func (l *Ledger) share(pod *v1.Pod, node string, w *want) error {
	e, ok := l.entries[w.key]
	if !ok || !slices.ContainsFunc(e.holds, func(h hold) bool { return h.node == node }) {
		return nil
	}
	return l.addHold(pod, w, hold{node: node})
}

func (l *Ledger) addHold(pod *v1.Pod, w *want, h hold) error {
	e := l.entryOf(w.key)
	if !slices.ContainsFunc(e.holds, func(other hold) bool { return other.pod == pod.UID && other.node == h.node && other.settling == 0 }) {
		h.pod, h.demand, h.inline, h.since = pod.UID, w.demand, w.claim == nil, l.now()
		if e.claim != nil {
			h.version = e.claim.version
		}
		e.holds = append(e.holds, h)
		l.addHolder(pod, w.key)
		if h.offer != "" {
			l.taken[h.offer] = w.key
		}
	}
	return l.review(w.key)
}

func (l *Ledger) addHolder(pod *v1.Pod, k key) {
	h, ok := l.holders[pod.UID]
	if !ok {
		h = &holder{name: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}}
		l.holders[pod.UID] = h
		l.holderNames[h.name] = append(l.holderNames[h.name], pod.UID)
	}
	if !slices.Contains(h.keys, k) {
		h.keys = append(h.keys, k)
	}
}

func (l *Ledger) dropHolder(pod types.UID, k key) {
	h := l.holders[pod]
	h.keys = slices.DeleteFunc(h.keys, func(other key) bool { return other == k })
	if len(h.keys) > 0 {
		return
	}
	delete(l.holders, pod)
	rest := slices.DeleteFunc(l.holderNames[h.name], func(other types.UID) bool { return other == pod })
	if len(rest) == 0 {
		delete(l.holderNames, h.name)
	} else {
		l.holderNames[h.name] = rest
	}
}

// Unsettled is a claim, or a pod with inline volumes, of which the cache does
// not tell yet whether a failed scheduling cycle has written to it.
type Unsettled struct {
	// Claim is set for a claim, Pod for inline volumes.
	Claim, Pod types.UID
	Name       types.NamespacedName
	// upTo tells the ends that the question is about from later ones.
	upTo uint64
}

// Unreserve takes back what the pod's scheduling cycle reserved. It is safe
// without a Reserve and may be repeated. If mayBeWritten is set, the cycle came
// so far that selected-node, or the pod's node, may have been written: what the
// cache does not tell of stays charged, and is returned, until [Ledger.Settle]
// or an event says what the API has.
func (l *Ledger) Unreserve(pod types.UID, mayBeWritten bool) ([]Unsettled, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, ok := l.holders[pod]
	if !ok {
		return nil, nil
	}
	var unsettled []Unsettled
	var problems []error
	l.settlings++
	for _, k := range slices.Clone(h.keys) {
		e := l.entries[k]
		for i := range e.holds {
			held := &e.holds[i]
			if held.pod != pod || held.settling > 0 || !mayBeWritten {
				continue
			}
			open := Unsettled{Pod: pod, Name: h.name, upTo: l.settlings}
			if !held.inline {
				if e.claim == nil || e.claim.version != held.version {
					continue // see hold.version
				}
				open = Unsettled{Claim: types.UID(k[len(claimKey("")):]), Name: e.claim.name, upTo: l.settlings}
			}
			held.settling = l.settlings
			if !slices.Contains(unsettled, open) {
				unsettled = append(unsettled, open)
			}
		}
		l.dropHolds(k, func(held *hold) bool { return held.pod == pod && held.settling == 0 })
		problems = append(problems, l.review(k))
	}
	return unsettled, errors.Join(problems...)
}

// Settle ends what Unreserve left open: the API was asked, and the claim (the
// pod) names no node, or is gone. If it does name one, its next event books it,
// and Settle must not be called. It tells whether anything was still open.
func (l *Ledger) Settle(u Unsettled) (released bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ended := func(h *hold) bool { return h.settling > 0 && h.settling <= u.upTo }
	if u.Claim != "" {
		return l.settle(claimKey(u.Claim), ended)
	}
	h, ok := l.holders[u.Pod]
	if !ok {
		return false, nil
	}
	var problems []error
	for _, k := range slices.Clone(h.keys) {
		one, err := l.settle(k, func(h *hold) bool { return ended(h) && h.inline && h.pod == u.Pod })
		released = released || one
		problems = append(problems, err)
	}
	return released, errors.Join(problems...)
}

func (l *Ledger) settle(k key, which func(*hold) bool) (bool, error) {
	released := l.dropHolds(k, which)
	return released, l.review(k)
}

// Bound ends the pod's reservations after its binding: its claims are bound.
// Inline volumes stay reserved until the cache shows the pod on its node.
func (l *Ledger) Bound(pod *v1.Pod) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, ok := l.holders[pod.UID]
	if !ok {
		return nil
	}
	problems := []error{l.syncPod(h.name)}
	for _, k := range slices.Clone(h.keys) {
		if e := l.entries[k]; e != nil && e.claim != nil {
			problems = append(problems, l.syncClaim(e.claim.name))
		}
		l.dropHolds(k, func(held *hold) bool { return held.pod == pod.UID && !held.inline })
		problems = append(problems, l.review(k))
	}
	return errors.Join(problems...)
}

// dropInlineHolds is for a pod that is gone, or has finished: it will not be bound.
func (l *Ledger) dropInlineHolds(pod types.UID) error {
	h, ok := l.holders[pod]
	if !ok {
		return nil
	}
	var problems []error
	for _, k := range slices.Clone(h.keys) {
		l.dropHolds(k, func(held *hold) bool { return held.pod == pod && held.inline })
		problems = append(problems, l.review(k))
	}
	return errors.Join(problems...)
}

// dropHolds removes reservations of k, and tells whether there were any; the
// caller reviews k.
func (l *Ledger) dropHolds(k key, which func(*hold) bool) (dropped bool) {
	e, ok := l.entries[k]
	if !ok {
		return false
	}
	var kept, gone []hold
	for i := range e.holds {
		if which(&e.holds[i]) {
			gone = append(gone, e.holds[i])
		} else {
			kept = append(kept, e.holds[i])
		}
	}
	if len(gone) == 0 {
		return false
	}
	e.holds = kept
	for _, h := range gone {
		if !slices.ContainsFunc(kept, func(other hold) bool { return other.pod == h.pod }) {
			l.dropHolder(h.pod, k)
		}
		if h.offer != "" && l.taken[h.offer] == k && !slices.ContainsFunc(kept, func(other hold) bool { return other.offer == h.offer }) {
			delete(l.taken, h.offer)
		}
	}
	return true
}
