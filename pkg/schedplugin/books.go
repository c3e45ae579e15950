package schedplugin

import (
	"maps"
	"slices"
	"strings"
)

// maxChargeBytes bounds what one entry adds to the books, so that no sum of
// senseless capacities overflows: 1 PiB, more than a node has.
const maxChargeBytes = 1 << 50

// charge is what an entry adds to the books of one pool.
type charge struct {
	node string
	// pool is anyPool if it is not known.
	pool  string
	bytes int64
	// ephemeral: the bytes are freed when the pod goes; inline: the volume is
	// in the pod's own specification.
	ephemeral, inline bool
	// reserved: for a scheduling cycle, and not in the API yet.
	reserved bool
}

// review is reviewEntry for what may be gone.
func (l *Ledger) review(k key) error {
	if e, ok := l.entries[k]; ok {
		return l.reviewEntry(e)
	}
	return nil
}

// reviewEntry brings all that follows from the facts of an entry up to date:
// which indexes it stands in, what it is charged, and whether it is worth
// keeping. Every change of a fact ends here.
func (l *Ledger) reviewEntry(e *entry) error {
	if e.dropped {
		return nil
	}
	if err := l.lookElsewhere(e); err != nil {
		return err
	}
	l.forgetForeign(e)
	l.index(e)
	charges := l.chargesOf(e)
	if !slices.Equal(charges, e.charges) {
		l.book(e, e.charges, -1)
		l.book(e, charges, 1)
		e.charges = charges
	}
	l.putOffers(e)
	l.countState(e)
	if e.empty() {
		e.dropped = true
		delete(l.entries, e.key)
	}
	return nil
}

func (l *Ledger) countState(e *entry) {
	if e.isCounted {
		l.states[e.counted]--
	}
	e.counted, e.isCounted = e.state(), !e.empty()
	if e.isCounted {
		l.states[e.counted]++
	}
}

// lookElsewhere finds out whether the claim is bound to somebody else's volume:
// then it needs none of ours.
func (l *Ledger) lookElsewhere(e *entry) error {
	e.elsewhere = false
	if e.claim == nil || e.claim.volumeName == "" || len(e.volumes) > 0 {
		return nil
	}
	volume, err := l.caches.Volumes.Get(e.claim.volumeName)
	gone, err := absent(err)
	if err != nil || gone {
		return err
	}
	e.elsewhere = !isOurs(l.driver, volume)
	return nil
}

// forgetForeign drops a claim that can never be charged again: it is bound, to
// a volume of another driver. (Should its class be made anew for this driver,
// SyncClass looks at it again.)
func (l *Ledger) forgetForeign(e *entry) {
	if !e.elsewhere {
		return
	}
	class, known := l.classes[e.claim.class]
	if e.claim.selectedNode != "" && (!known || class.ours) {
		return
	}
	delete(l.claimNames, e.claim.name)
	e.claim = nil
}

func (l *Ledger) index(e *entry) {
	var class, volume, hostname string
	if e.claim != nil && (len(e.volumes) == 0 || e.claim.volumeName == "") {
		class, volume = e.claim.class, e.claim.volumeName
	}
	for i := range e.holds {
		if e.holds[i].volume != "" {
			volume = e.holds[i].volume
		}
	}
	for i := range e.volumes {
		if e.volumes[i].byHostname {
			hostname = e.volumes[i].host
		}
		if e.volumes[i].demand.pool == anyPool {
			class = e.volumes[i].class
		}
	}
	place(l.unbound, e, &e.unbound, class)
	place(l.unseen, e, &e.unseen, volume)
	place(l.labelled, e, &e.labelled, hostname)
}

func (l *Ledger) book(e *entry, charges []charge, sign int64) {
	for _, c := range charges {
		books := l.booksOf(c.node)
		if sign > 0 {
			books.volumes[e] = struct{}{}
		} else {
			delete(books.volumes, e)
			l.dropOffer(c.node, e.key)
		}
		if c.inline {
			books.slots.inline += int(sign)
			l.inline += int(sign)
		}
		name := l.addTotals(c.pool, func(t *poolTotals) {
			if c.reserved {
				t.reserved += sign * c.bytes
			} else {
				t.used += sign * c.bytes
			}
		})
		if c.pool == anyPool {
			books.anyPool += sign * c.bytes
		} else {
			books.bookPool(name, c, sign)
		}
		l.dropBooksIfEmpty(c.node)
	}
}

func (b *nodeBooks) bookPool(name string, c charge, sign int64) {
	pool := b.madePool(name)
	pool.used += sign * c.bytes
	if c.ephemeral {
		pool.ephemeral += sign * c.bytes
	}
	if pool.used == 0 {
		b.dropPoolIfEmpty(name)
	}
}

// addTotals changes the sums over all nodes of one pool, and returns the string
// to know the pool by.
func (l *Ledger) addTotals(pool string, change func(*poolTotals)) string {
	t, ok := l.totals[pool]
	if !ok {
		t = &poolTotals{name: pool}
		l.totals[pool] = t
	}
	change(t)
	if t.empty() {
		delete(l.totals, pool)
	}
	return t.name
}

// chargesOf is the one rule by which volumes are charged. Where a volume is, it
// takes bytes, whatever phase it is in. A claim that is not bound is charged
// beyond that to every node on which a volume may be made for it: the one that
// it names, and the ones that scheduling cycles have chosen; once to each. (A
// volume may be on its way although the claim has one: VolumeBinding can choose
// an existing volume for one pod, and to have one made for another pod with the
// same claim.)
func (l *Ledger) chargesOf(e *entry) []charge {
	var charges []charge
	for i := range e.volumes {
		charges = l.chargeVolume(charges, e, &e.volumes[i])
	}
	if e.elsewhere {
		return charges
	}
	if c := e.claim; c != nil && c.selectedNode != "" && !c.lost && !e.made() {
		if d, ours := l.claimDemand(c); ours {
			charges = l.charge(charges, charge{node: c.selectedNode, ephemeral: c.ephemeral}, d)
		}
	}
	if e.inline != nil {
		charges = l.charge(charges, charge{node: e.inline.node, ephemeral: true, inline: true}, e.inline.demand)
	}
	for i := range e.holds {
		h := &e.holds[i]
		if !h.free && !charged(charges, h.node) {
			charges = l.charge(charges, charge{node: h.node, ephemeral: h.inline || e.ephemeral(), inline: h.inline, reserved: true}, h.demand)
		}
	}
	return charges
}

// made tells that the volume which the claim's selected node stands for is
// there. The provisioner names it after the claim.
func (e *entry) made() bool {
	return len(e.volumes) > 0 && (e.claim.volumeName != "" || slices.ContainsFunc(e.volumes, func(v volumeFact) bool {
		return strings.HasSuffix(v.name, string(e.key))
	}))
}

func charged(charges []charge, node string) bool {
	return slices.ContainsFunc(charges, func(c charge) bool { return c.node == node })
}

// chargeVolume charges a volume that exists, or what it is being extended to. The
// claim may be seen to go before the volume is seen to have grown.
func (l *Ledger) chargeVolume(charges []charge, e *entry, v *volumeFact) []charge {
	d := v.demand
	if class := l.classes[v.class]; d.pool == anyPool && class.ours && class.err == nil {
		d.pool = class.demand.pool
	}
	c := e.claim
	if c == nil && !v.released {
		c = e.deleted
	}
	if c != nil && c.volumeName == v.name {
		d.requestedBytes = max(d.requestedBytes, c.requestedBytes)
	}
	if v.host == "" {
		return charges
	}
	if !v.byHostname || len(l.hostnames[v.host]) == 0 {
		return l.charge(charges, charge{node: v.host, ephemeral: e.ephemeral()}, d)
	}
	for _, node := range slices.Sorted(maps.Keys(l.hostnames[v.host])) {
		charges = l.charge(charges, charge{node: node, ephemeral: e.ephemeral()}, d)
	}
	return charges
}

// claimDemand is what the claim asks of which pool. If its class is not known,
// or not any more, and no other driver was asked for the volume, the pool may be
// any.
func (l *Ledger) claimDemand(c *claimFact) (d demand, ours bool) {
	class, known := l.classes[c.class]
	switch {
	case class.ours && class.err == nil:
		return class.demand.withClaim(c.requestedBytes, c.block), true
	case class.ours || c.ours || !known && !c.others:
		return demand{pool: anyPool}.withClaim(c.requestedBytes, c.block), true
	default:
		return demand{}, false
	}
}

func (l *Ledger) charge(charges []charge, c charge, d demand) []charge {
	c.pool = d.pool
	c.bytes = min(d.poolBytes(l.nodes[c.node].madeIn(d.pool)), maxChargeBytes)
	return append(charges, c)
}
