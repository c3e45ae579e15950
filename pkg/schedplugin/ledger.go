package schedplugin

import (
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// Caches are the informers' caches. They are read under the ledger's lock, and
// must not call back into it.
type Caches struct {
	Nodes    corelisters.NodeLister
	Volumes  corelisters.PersistentVolumeLister
	Claims   corelisters.PersistentVolumeClaimLister
	Pods     corelisters.PodLister
	Classes  storagelisters.StorageClassLister
	CSINodes storagelisters.CSINodeLister
}

// LedgerOptions configure a [Ledger]. Driver and Caches are required.
type LedgerOptions struct {
	// Driver is the CSI driver's name.
	Driver string
	Caches Caches
	// Ratio returns the oversell ratio of a pool; 1 for every pool if nil. It
	// must always return the same for the same pool.
	Ratio func(pool string) float64
	// Unsettled is told of what [Ledger.Settle] should be called for once the API
	// was asked, beside what Unreserve returns. It is called under the ledger's
	// lock and must not call back; it may be nil.
	Unsettled func(Unsettled)
	// Released is told when bytes were freed on a node that no event names, so
	// that pods can be woken. As Unsettled.
	Released func()
	// Now is the clock for the age of reservations; time.Now if nil. No
	// decision depends on it.
	Now func() time.Time
}

// Ledger keeps the books of one driver. One ledger serves all profiles of a
// scheduler. Its methods may be called at any time from any goroutine; readers
// wait for a writer no longer than it takes to read one object and change a few
// map entries.
type Ledger struct {
	driver string
	caches Caches
	ratio  func(pool string) float64
	now    func() time.Time
	// unsettled and released are never nil.
	unsettled func(Unsettled)
	released  func()

	// mu protects all below.
	mu      sync.RWMutex
	entries map[key]*entry
	nodes   map[string]*nodeBooks
	// classes holds every class of the driver that was ever seen, and others
	// for as long as they are there.
	classes map[string]classFact

	// What an object's name stood for when it was last looked at, so that its
	// disappearance can be booked.
	claimNames  map[types.NamespacedName]types.UID
	volumeNames map[string]*entry
	podNames    map[types.NamespacedName][]key

	// Who has to be looked at again when something else changes:
	// claims without a volume, by their class;
	unbound map[string]entrySet
	// claims whose volume is not this driver's or not seen yet, by its name;
	unseen map[string]entrySet
	// volumes that only a hostname places, by the hostname.
	labelled map[string]entrySet
	// hostnames are the nodes that have a hostname label.
	hostnames map[string]map[string]struct{}

	// holders are the pods with reservations.
	holders map[types.UID]*holder
	// holderNames finds them by name.
	holderNames map[types.NamespacedName][]types.UID
	// offers are the volumes on a node that a claim could be bound to.
	offers map[string]map[key]*v1.PersistentVolume
	// settlings counts the failed cycles of which something had to be settled.
	settlings uint64

	// kinds counts the pools on the nodes by how volumes are made in them.
	kinds map[capacity.PoolFacts]int

	// Sums over all nodes, for metrics.
	states     [entryStates]int
	totals     map[string]*poolTotals
	inline     int
	unreadable int
}

// entry is all that is known of one volume, and what it is charged for.
type entry struct {
	key   key
	claim *claimFact
	// deleted is the claim as it was last seen, once it is gone: the volume may
	// have been extended to what it asked for and not tell so yet.
	deleted *claimFact
	// volumes are the PersistentVolumes of the claim, usually one.
	volumes []volumeFact
	inline  *inlineFact
	holds   []hold
	charges []charge
	// elsewhere: the claim is bound to a volume that is not this driver's.
	elsewhere bool
	// In which of the ledger's indexes the entry stands, and where.
	unbound, unseen, labelled string
	// counted is the state that the entry is counted in; valid if isCounted.
	counted   entryState
	isCounted bool
	// dropped: it is not in the ledger any more.
	dropped bool
}

// entrySet has only entries of which something is known: review takes the others out.
type entrySet map[*entry]struct{}

// poolTotals are the sums over all nodes of one pool, in bytes.
type poolTotals struct {
	// name is the pool's; all books and wants share this string.
	name                        string
	allocatable, used, reserved int64
	// nodes is how many publish the pool.
	nodes int
}

func (t *poolTotals) empty() bool {
	return t.allocatable == 0 && t.used == 0 && t.reserved == 0 && t.nodes == 0
}

// entryState is where a volume is in its life, as far as the ledger knows.
type entryState uint8

const (
	// stateIdle: a claim for which no node was chosen yet.
	stateIdle entryState = iota
	stateReserved
	stateSelected
	stateProvisioned
	stateInline
	entryStates
)

func (s entryState) String() string {
	return [...]string{"idle", "reserved", "selected", "provisioned", "inline"}[s]
}

func (e *entry) state() entryState {
	switch {
	case len(e.volumes) > 0:
		return stateProvisioned
	case e.inline != nil:
		return stateInline
	case len(e.charges) > 0 && e.claim != nil && e.claim.selectedNode != "":
		return stateSelected
	case len(e.holds) > 0:
		return stateReserved
	default:
		return stateIdle
	}
}

// ephemeral tells that the volume goes when its pod goes.
func (e *entry) ephemeral() bool { return e.inline != nil || e.claim != nil && e.claim.ephemeral }

// empty tells that nothing is known of the volume any more.
func (e *entry) empty() bool {
	return e.claim == nil && len(e.volumes) == 0 && e.inline == nil && len(e.holds) == 0
}

// nodeBooks are the books of one node. They outlive the Node object for as long
// as volumes are charged to it.
type nodeBooks struct {
	// What Filter reads comes first: it takes less time than fetching it from
	// memory does.

	// pools are those that the node publishes or that are charged, in any order.
	pools []poolBook
	// anyPool are the bytes that may be in any of the pools.
	anyPool int64
	// slots is for volumes, however many bytes they have.
	slots slots
	fact  nodeFact
	// present: there is a Node or a CSINode of that name.
	present bool
	// volumes are the entries that are charged to the node.
	volumes entrySet
}

// slots are what the node's CSINode says of the driver, and how many charges
// are for inline volumes.
type slots struct {
	attachable
	inline int
}

// poolBook are the books of one pool on one node; all figures in bytes.
type poolBook struct {
	name string
	// made says how volumes are made in the pool.
	made capacity.PoolFacts
	// allocatable is what the node published; limit is that times the ratio.
	// Both are 0 unless known.
	known       bool
	limit       int64
	used        int64
	allocatable int64
	// ephemeral is the part of used that goes with its pod.
	ephemeral int64
}

// NewLedger returns an empty ledger. Feed it by calling the Sync methods for
// every object in the caches and for every event.
func NewLedger(opts LedgerOptions) *Ledger {
	l := &Ledger{
		driver: opts.Driver, caches: opts.Caches, ratio: opts.Ratio, now: opts.Now, unsettled: opts.Unsettled, released: opts.Released,
		entries: map[key]*entry{}, nodes: map[string]*nodeBooks{}, classes: map[string]classFact{},
		claimNames: map[types.NamespacedName]types.UID{}, volumeNames: map[string]*entry{}, podNames: map[types.NamespacedName][]key{},
		unbound: map[string]entrySet{}, unseen: map[string]entrySet{}, labelled: map[string]entrySet{},
		hostnames: map[string]map[string]struct{}{},
		holders:   map[types.UID]*holder{}, holderNames: map[types.NamespacedName][]types.UID{},
		offers: map[string]map[key]*v1.PersistentVolume{},
		totals: map[string]*poolTotals{}, kinds: map[capacity.PoolFacts]int{},
	}
	if l.ratio == nil {
		l.ratio = func(string) float64 { return 1 }
	}
	if l.unsettled == nil {
		l.unsettled = func(Unsettled) {}
	}
	if l.released == nil {
		l.released = func() {}
	}
	if l.now == nil {
		l.now = time.Now
	}
	return l
}

// Driver is the CSI driver whose books these are.
func (l *Ledger) Driver() string { return l.driver }

// entryOf returns the entry of k, made if there is none. The caller settles it
// with review, which drops entries that know nothing.
func (l *Ledger) entryOf(k key) *entry {
	e, ok := l.entries[k]
	if !ok {
		e = &entry{key: k}
		l.entries[k] = e
	}
	return e
}

func (l *Ledger) booksOf(node string) *nodeBooks {
	b, ok := l.nodes[node]
	if !ok {
		b = &nodeBooks{volumes: entrySet{}}
		l.nodes[node] = b
	}
	return b
}

func (l *Ledger) dropBooksIfEmpty(node string) {
	if b, ok := l.nodes[node]; ok && !b.present && len(b.volumes) == 0 {
		delete(l.nodes, node)
	}
}

// pool returns the books of a pool, nil if there are none. They are good until
// the next change.
func (b *nodeBooks) pool(name string) *poolBook {
	if b == nil {
		return nil
	}
	for i := range b.pools {
		if b.pools[i].name == name {
			return &b.pools[i]
		}
	}
	return nil
}

// madePool returns the books of a pool, made if there are none; dropPoolIfEmpty
// is for when they are not needed any more.
func (b *nodeBooks) madePool(name string) *poolBook {
	if p := b.pool(name); p != nil {
		return p
	}
	b.pools = append(b.pools, poolBook{name: name, made: b.fact.made[name]})
	return &b.pools[len(b.pools)-1]
}

func (b *nodeBooks) dropPoolIfEmpty(name string) {
	b.pools = slices.DeleteFunc(b.pools, func(p poolBook) bool { return p.name == name && p.used == 0 && !p.known })
}

// madeIn says how volumes are made in a pool of the node; b may be nil.
func (b *nodeBooks) madeIn(pool string) capacity.PoolFacts {
	if b == nil {
		return capacity.PoolFacts{}
	}
	return b.fact.made[pool]
}

// place puts e into an index under name, and takes it out from where it stood.
func place(index map[string]entrySet, e *entry, stood *string, name string) {
	if *stood == name {
		return
	}
	if *stood != "" {
		delete(index[*stood], e)
		if len(index[*stood]) == 0 {
			delete(index, *stood)
		}
	}
	*stood = name
	if name == "" {
		return
	}
	if index[name] == nil {
		index[name] = entrySet{}
	}
	index[name][e] = struct{}{}
}
