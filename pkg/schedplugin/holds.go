package schedplugin

import (
	"errors"
	"maps"
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
	// claim is the object that the cycle saw; nil for inline volumes.
	claim *v1.PersistentVolumeClaim
	// version is the claim's in the cache when the reservation was made. What
	// the cycle writes is based on that version or an older one, so once the
	// cache has another, the cycle has either written or can write no more.
	version string
	// settling is set once the cycle has ended, and whether it wrote is not
	// known yet: it counts such ends, from 1.
	settling uint64
	// free: the hold is charged nothing. Either there is room only because
	// VolumeBinding is expected to bind the claim to a volume that exists and is
	// charged; or the API tells of the claim by now. The cycle has not ended, so
	// it may still take a volume that is on offer.
	free bool
	// volume is set if the claim was deleted after a volume was made for it, or
	// may have been, that was not seen yet. The hold ends when the volume is seen,
	// or the API says that there is none; no pod has it.
	volume string
}

// answeredBy tells that the claim itself says now what the hold was for: it
// names a node or a volume, or the cycle that is settling can write no more.
// That goes for the holds of all pods: a cycle that began with an older version
// of the claim can write nothing but a conflict, and one that began with this
// version found the node named.
func (h *hold) answeredBy(c claimFact) bool {
	return c.selectedNode != "" || c.volumeName != "" || h.settling > 0 && c.version != h.version
}

// answerHolds is for holds whose question the API has answered; the caller
// reviews k.
func (l *Ledger) answerHolds(k key, which func(*hold) bool) {
	l.dropHolds(k, func(h *hold) bool { return which(h) && (h.settling > 0 || h.volume != "") })
	if e, ok := l.entries[k]; ok {
		for i := range e.holds {
			e.holds[i].free = e.holds[i].free || which(&e.holds[i])
		}
	}
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
	if short, ok := l.judge(node, l.nodes[node], wants.list, nil); !ok {
		return short, false, nil
	}
	var matched map[int]key
	if len(l.offers[node]) > 0 {
		matched = l.matchOffers(node, wants.list)
	}
	full := l.fullPools(node, wants.list)
	var problems []error
	for i := range wants.list {
		w := &wants.list[i]
		// One that the claim itself is charged for needs no reservation.
		if !l.decided(w.key, node) {
			// The bytes are reserved even for a claim that will be bound to an offer
			// as long as there are enough: VolumeBinding may see it otherwise.
			problems = append(problems, l.addHold(pod, w, hold{node: node, free: matched[i] != "" && full[w.demand.pool]}))
		}
	}
	return Shortage{}, true, errors.Join(problems...)
}

// fullPools are the pools that have no room for their wants without offers.
func (l *Ledger) fullPools(node string, wants []want) map[string]bool {
	full, books := map[string]bool{}, l.nodes[node]
	for begin := 0; begin < len(wants); {
		pool := wants[begin].demand.pool
		g := l.group(node, books.pool(pool), wants, begin, nil)
		if g.count > 0 {
			_, ok := l.room(node, books, pool, g.requested, nil)
			full[pool] = !ok
		}
		begin = g.end
	}
	return full
}

func (l *Ledger) addHold(pod *v1.Pod, w *want, h hold) error {
	h.pod, h.demand, h.inline, h.since, h.claim = pod.UID, w.demand, w.claim == nil, l.now(), w.claim
	e := l.entryOf(w.key)
	if !slices.ContainsFunc(e.holds, func(other hold) bool { return other.pod == pod.UID && other.node == h.node && other.settling == 0 }) {
		if e.claim != nil {
			h.version = e.claim.version
		}
		e.holds = append(e.holds, h)
		l.addHolder(pod, w.key)
	}
	return l.reviewEntry(e)
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
	h, ok := l.holders[pod]
	if !ok {
		return // it had two holds of the volume, from two cycles
	}
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
	// Claim is set for a claim, Pod for inline volumes; Volume is the name of a
	// PersistentVolume that was not seen before its claim was deleted.
	Claim, Pod types.UID
	Volume     string
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
				open = Unsettled{Claim: types.UID(k), Name: e.claim.name, upTo: l.settlings}
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
	if u.Volume != "" {
		return l.dropGhosts(u.Volume)
	}
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

// haunt keeps charging for a claim that was deleted, if a volume was made for it
// that the cache does not have yet, or may be being made. The cache need not
// have shown the claim selected or bound in between.
func (l *Ledger) haunt(e *entry) error {
	c, before := e.claim, e.holds
	// A cycle that goes on may still write a volume that it found on offer.
	l.dropHolds(e.key, func(h *hold) bool { return !h.free || h.settling > 0 || h.volume != "" })
	if c == nil || c.lost || e.elsewhere || len(e.volumes) > 0 {
		return nil
	}
	volume := c.volumeName
	if volume == "" {
		// The name that csi-provisioner gives it by default. Under another name it
		// is found by its claim, if it comes.
		volume = "pvc-" + string(e.key)
	}
	if _, err := l.caches.Volumes.Get(volume); err == nil {
		return l.syncVolume(volume)
	}
	ghosts := slices.DeleteFunc(slices.Clone(before), func(h hold) bool { return h.free })
	if d, ours := l.claimDemand(c); ours && c.selectedNode != "" {
		ghosts = append(ghosts, hold{node: c.selectedNode, demand: d, since: l.now()})
	}
	for _, h := range ghosts {
		h.pod, h.settling, h.volume, h.claim = "", 0, volume, nil
		e.holds = append(e.holds, h)
	}
	if len(ghosts) > 0 {
		l.unsettled(Unsettled{Volume: volume})
	}
	return nil
}

// dropGhosts ends what haunt began: the volume was seen, or there is none.
func (l *Ledger) dropGhosts(volume string) (dropped bool, err error) {
	if len(l.unseen[volume]) == 0 {
		return false, nil
	}
	var problems []error
	for _, e := range slices.Collect(maps.Keys(l.unseen[volume])) {
		dropped = l.dropHolds(e.key, func(h *hold) bool { return h.volume == volume }) || dropped
		problems = append(problems, l.reviewEntry(e))
	}
	return dropped, errors.Join(problems...)
}

// Bound ends the pod's reservations after its binding: its claims are bound.
// Inline volumes stay reserved until the cache shows the pod on its node. It
// tells whether an offer, which nobody else could count on, may be free now.
func (l *Ledger) Bound(pod *v1.Pod) (released bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, ok := l.holders[pod.UID]
	if !ok {
		return false, nil
	}
	problems := []error{l.syncPod(h.name)}
	for _, k := range slices.Clone(h.keys) {
		if e := l.entries[k]; e != nil && e.claim != nil {
			problems = append(problems, l.syncClaim(e.claim.name))
		}
		l.dropHolds(k, func(held *hold) bool {
			ended := held.pod == pod.UID && !held.inline
			released = released || ended && len(l.offers[held.node]) > 0
			return ended
		})
		problems = append(problems, l.review(k))
	}
	return released, errors.Join(problems...)
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
	}
	return true
}
