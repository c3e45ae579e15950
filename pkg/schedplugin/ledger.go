package schedplugin

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// LedgerOptions configure a [Ledger]. Driver and Caches are required.
type LedgerOptions struct {
	// Driver is the CSI driver's name.
	Driver string
	Caches Caches
	// Ratio returns the oversell ratio of a pool; 1 for every pool if nil.
	Ratio func(pool string) float64
	// Now is the clock for the age of reservations; time.Now if nil. No
	// decision depends on it.
	Now func() time.Time
}

// Ledger keeps the books of one driver. One ledger serves all profiles of a
// scheduler. Its methods may be called at any time from any goroutine; readers
// wait for a writer no longer than it takes to change a few map entries.
type Ledger struct {
	driver string
	caches Caches
	ratio  func(pool string) float64
	now    func() time.Time

	// mu protects all below.
	mu      sync.RWMutex
	entries map[key]*entry
	nodes   map[string]*nodeBooks
	classes map[string]classFact
	// hosts maps the hostname labels of nodes to their names.
	hosts map[string]string
	// poolNodes counts the nodes that publish a pool.
	poolNodes map[string]int

	// What an object's name stood for when it was last looked at, so that its
	// disappearance can be booked.
	claimNames  map[types.NamespacedName]types.UID
	volumeNames map[string]key
	podNames    map[types.NamespacedName][]key
	nodeHosts   map[string]string

	// elsewhere are the claims that are bound to a volume which is not this
	// driver's, or not there, by the volume's name.
	elsewhere map[string]key
	// waiting are the claims whose class was not known yet, by its name.
	waiting map[string]map[key]struct{}
	// holders are the reservations, by the pod that made them.
	holders map[types.UID][]key
	// offers are the volumes on a node that a claim could be bound to.
	offers map[string]map[key]struct{}
}

// entry is all that is known of one volume, and what it is charged for.
type entry struct {
	claim *claimFact
	// demand is what the claim asks for, once its class was seen. It stays when
	// the class is deleted: the volume may be on its way.
	demand *demand
	// boundElsewhere: the claim is bound to a volume that is not this driver's.
	boundElsewhere bool
	// volumes are the PersistentVolumes of the claim, usually one.
	volumes []volumeFact
	inline  *inlineFact
	holds   []hold
	charges []charge
}

// ephemeral tells that the volume goes when its pod goes.
func (e *entry) ephemeral() bool { return e.inline != nil || e.claim != nil && e.claim.ephemeral }

// hold is a reservation: a scheduling cycle of pod has chosen node.
type hold struct {
	pod    types.UID
	node   string
	demand demand
	inline bool
	since  time.Time
	// settling: the cycle has ended, and whether it wrote selected-node is not
	// known yet.
	settling bool
}

// charge is what an entry adds to the books of one pool.
type charge struct {
	node, pool string
	bytes      int64
	// ephemeral: the bytes are freed when the pod goes.
	ephemeral bool
}

// nodeBooks are the books of one node. They outlive the Node object for as long
// as volumes are charged to it.
type nodeBooks struct {
	fact       nodeFact
	attachable attachable
	pools      map[string]*poolBook
	// volumes is how many volumes are charged to the node.
	volumes int64
}

// poolBook are the books of one pool on one node; all figures in bytes.
type poolBook struct {
	// allocatable is what the node published; limit is that times the ratio.
	// Both are 0 unless known.
	known       bool
	allocatable int64
	limit       int64
	used        int64
	// ephemeral is the part of used that goes with its pod.
	ephemeral int64
}

// NewLedger returns an empty ledger. Feed it by calling the Sync methods for
// every object in the caches and for every event.
func NewLedger(opts LedgerOptions) *Ledger {
	l := &Ledger{
		driver: opts.Driver, caches: opts.Caches, ratio: opts.Ratio, now: opts.Now,
		entries: map[key]*entry{}, nodes: map[string]*nodeBooks{}, classes: map[string]classFact{},
		hosts: map[string]string{}, poolNodes: map[string]int{},
		claimNames: map[types.NamespacedName]types.UID{}, volumeNames: map[string]key{},
		podNames: map[types.NamespacedName][]key{}, nodeHosts: map[string]string{}, elsewhere: map[string]key{},
		waiting: map[string]map[key]struct{}{}, holders: map[types.UID][]key{}, offers: map[string]map[key]struct{}{},
	}
	if l.ratio == nil {
		l.ratio = func(string) float64 { return 1 }
	}
	if l.now == nil {
		l.now = time.Now
	}
	return l
}

// entryOf returns the entry of k, made if there is none. The caller settles it
// with recharge, which drops entries that know nothing.
func (l *Ledger) entryOf(k key) *entry {
	e, ok := l.entries[k]
	if !ok {
		e = &entry{}
		l.entries[k] = e
	}
	return e
}

func (l *Ledger) booksOf(node string) *nodeBooks {
	b, ok := l.nodes[node]
	if !ok {
		b = &nodeBooks{pools: map[string]*poolBook{}}
		l.nodes[node] = b
	}
	return b
}

func (b *nodeBooks) pool(name string) *poolBook {
	p, ok := b.pools[name]
	if !ok {
		p = &poolBook{}
		b.pools[name] = p
	}
	return p
}

// extentSize is the size of the pool's extents in bytes.
func (b *nodeBooks) extentSize(pool string) int64 {
	if b != nil {
		if size, ok := b.fact.extentSizes[pool]; ok {
			return size
		}
	}
	return defaultExtentSizeBytes
}

// recharge brings the books up to what is known of k now: it takes the entry's
// old charges out and puts the right ones in.
func (l *Ledger) recharge(k key) {
	e, ok := l.entries[k]
	if !ok {
		return
	}
	charges := l.chargesOf(e)
	if !slices.Equal(charges, e.charges) {
		l.book(e.charges, -1)
		l.book(charges, 1)
		e.charges = charges
	}
	if e.claim == nil && len(e.volumes) == 0 && e.inline == nil && len(e.holds) == 0 {
		delete(l.entries, k)
	}
}

func (l *Ledger) book(charges []charge, sign int64) {
	for _, c := range charges {
		books := l.booksOf(c.node)
		pool := books.pool(c.pool)
		pool.used += sign * c.bytes
		books.volumes += sign
		if c.ephemeral {
			pool.ephemeral += sign * c.bytes
		}
		if pool.used == 0 && !pool.known {
			delete(books.pools, c.pool)
		}
	}
}

// chargesOf is the one rule by which volumes are charged. Where a volume is, it
// takes bytes, whatever phase it is in. Where it is not yet, it is charged to
// every node on which it may be made: the one that the claim names, and the ones
// that scheduling cycles have chosen.
func (l *Ledger) chargesOf(e *entry) []charge {
	var charges []charge
	for i := range e.volumes {
		v := &e.volumes[i]
		node := l.resolve(v.host)
		if node == "" || !v.readable {
			continue
		}
		d := v.demand
		if e.claim != nil {
			d.requestedBytes = max(d.requestedBytes, e.claim.requestedBytes)
		}
		charges = l.charge(charges, node, d, e.ephemeral())
	}
	if len(e.volumes) > 0 || e.boundElsewhere {
		return charges
	}
	if e.claim != nil && e.demand != nil && !e.claim.lost && e.claim.selectedNode != "" {
		charges = l.charge(charges, e.claim.selectedNode, *e.demand, e.ephemeral())
	}
	if e.inline != nil && e.inline.readable {
		charges = l.charge(charges, e.inline.node, e.inline.demand, true)
	}
	for _, h := range e.holds {
		charges = l.charge(charges, h.node, h.demand, h.inline || e.ephemeral())
	}
	return charges
}

// charge adds a charge, unless there is one for the node already.
func (l *Ledger) charge(charges []charge, node string, d demand, ephemeral bool) []charge {
	if slices.ContainsFunc(charges, func(c charge) bool { return c.node == node && c.pool == d.pool }) {
		return charges
	}
	return append(charges, charge{node: node, pool: d.pool, bytes: l.bytesOn(node, d), ephemeral: ephemeral})
}

// bytesOn is what the volume takes from its pool on the node. A request that no
// volume can satisfy is charged as it stands: the driver will refuse it.
func (l *Ledger) bytesOn(node string, d demand) int64 {
	bytes, err := d.poolBytes(l.nodes[node].extentSize(d.pool))
	if err != nil {
		return d.requestedBytes
	}
	return bytes
}

// resolve returns the name of the node that a PersistentVolume names.
func (l *Ledger) resolve(host string) string {
	if name, ok := l.hosts[host]; ok {
		return name
	}
	return host
}
