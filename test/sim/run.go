package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Variant is a way of tracking capacity.
type Variant string

// The variants; intree.go, extender.go and local.go say what they are.
const (
	// Untracked: every node will do, and CreateVolume says no.
	Untracked Variant = "none"
	// InTreeCentral and InTreeNodes use CSIStorageCapacity objects, written by one
	// csi-provisioner, or by one on each node.
	InTreeCentral Variant = "in-tree, central"
	InTreeNodes   Variant = "in-tree, per node"
	// Extender reads an annotation and reserves nothing.
	Extender Variant = "extender"
	// LocalCapacity is our plugin, WithoutReserve the same less Reserve.
	LocalCapacity  Variant = "LocalCapacity"
	WithoutReserve Variant = "without Reserve"
)

// Variants returns all of them.
func Variants() []Variant {
	return []Variant{Untracked, InTreeCentral, InTreeNodes, Extender, LocalCapacity, WithoutReserve}
}

// Result is what became of a trace.
type Result struct {
	Variant Variant `json:"variant"`
	Seed    uint64  `json:"seed"`
	Pods    int     `json:"pods"`
	// FailedCreates is how many CreateVolume calls answered ResourceExhausted.
	FailedCreates int `json:"failedCreates"`
	// OversoldPeakBytes is the most that was ever promised beyond the pools'
	// sizes, summed over the nodes.
	OversoldPeakBytes int64 `json:"oversoldPeakBytes"`
	// Bound is how many pods were bound; Stuck how many of the others would have
	// fitted into what no volume occupies at the end.
	Bound int `json:"bound"`
	Stuck int `json:"stuck"`
	// LastBoundSeconds is when the last pod was bound, since the trace began.
	LastBoundSeconds float64 `json:"lastBoundSeconds"`
	// APIWrites counts requests that change something, events included, by
	// whose they were.
	APIWrites map[string]int `json:"apiWrites"`
}

// AllBound tells whether no pod was left.
func (r Result) AllBound() bool { return r.Bound == r.Pods }

// TrackingWrites are the API writes made for nothing but tracking capacity.
func (r Result) TrackingWrites() int {
	return r.APIWrites["csi-provisioner capacity"] + r.APIWrites["node agent"]
}

// TotalWrites are all API writes.
func (r Result) TotalWrites() int {
	total := 0
	for _, n := range r.APIWrites {
		total += n
	}
	return total
}

// ErrVariant is returned for a variant that there is not.
var ErrVariant = errors.New("unknown variant")

// Run plays the trace with a variant. It is deterministic. An error means that
// the simulation is wrong, not the variant.
func Run(t Trace, v Variant) (Result, error) {
	w, err := newWorld(t, v)
	if err != nil {
		return Result{}, err
	}
	w.play(t)
	return w.result(t, v), errors.Join(w.scheduler.err, w.check())
}

// world is everybody.
type world struct {
	*cluster
	scheduler *scheduler
}

func newWorld(t Trace, v Variant) (*world, error) {
	c := newCluster(t)
	w := &world{cluster: c, scheduler: newScheduler(c)}
	c.watch(w.scheduler)
	newBinder(c)
	ps := newProvisioners(c, v == InTreeCentral)
	var err error
	switch v {
	case Untracked:
	case InTreeCentral, InTreeNodes:
		w.scheduler.tracker, w.scheduler.capacityPlugin = newInTree(w.scheduler, v == InTreeCentral), byBinding
	case Extender:
		w.scheduler.tracker = newExtender(w.scheduler)
	case LocalCapacity, WithoutReserve:
		w.scheduler.tracker, err = newLocal(w.scheduler, v == LocalCapacity)
	default:
		return nil, fmt.Errorf("%w: %q", ErrVariant, v)
	}
	ps.tracker = w.scheduler.tracker
	return w, err
}

// play lets the pods come, and waits until all are bound (and those that are
// deleted, gone), or patience is over.
func (w *world) play(t Trace) {
	var last time.Duration
	pods := w.newStream()
	for _, p := range w.pods {
		last = p.spec.Arrives
		w.at(p.spec.Arrives, func() {
			for _, c := range p.claims {
				w.changeClaim(c, func(*claimState) {})
			}
			// The scheduler tries a pod once it has seen the claims (else it would be
			// refused, and woken when they come).
			pods.last = max(pods.last, w.watches[0].claims.last)
			pods.send(func() { w.scheduler.sawPod(p) })
		})
	}
	w.run(last+t.Options.Patience, func() bool { return w.open == 0 || w.scheduler.err != nil })
}

func (w *world) result(t Trace, v Variant) Result {
	r := Result{Variant: v, Seed: t.Options.Seed, Pods: len(w.pods), FailedCreates: w.failedCreates, OversoldPeakBytes: w.oversoldPeak,
		Bound: w.bound, Stuck: w.stuck(), LastBoundSeconds: w.lastBound.Seconds(), APIWrites: map[string]int{}}
	for _, name := range slices.Sorted(maps.Keys(w.writes)) {
		r.APIWrites[name] = *w.writes[name]
	}
	return r
}

// stuck counts the pods that are not bound, though together they would fit into
// what no volume occupies: first come, first served, on the first node that has
// room. Volumes of their own do not count.
func (w *world) stuck() int {
	available := make([]int64, len(w.nodes))
	for i, n := range w.nodes {
		available[i] = n.available()
	}
	var left []*pod
	for _, p := range w.pods {
		if p.sched.state == ended {
			continue
		}
		left = append(left, p)
		for _, c := range p.claims {
			if c.volume.exists() {
				available[c.volume.node] += c.bytes
			}
		}
	}
	stuck := 0
	for _, p := range left {
		if i := slices.IndexFunc(available, func(bytes int64) bool { return requested(p) <= bytes }); i >= 0 {
			available[i] -= requested(p)
			stuck++
		}
	}
	return stuck
}

// ErrInconsistent means that the simulation lost or invented something.
var ErrInconsistent = errors.New("the simulation does not add up")

// check compares the sums with what they are of. The run may have ended at any
// moment: a volume that is released may be off the disk already.
func (w *world) check() error {
	allocated, promised := make([]int64, len(w.nodes)), make([]int64, len(w.nodes))
	for _, c := range w.claims {
		if c.promised != none {
			promised[c.promised] += c.bytes
		}
		if c.volume.exists() {
			allocated[c.volume.node] += c.bytes
			if c.promised != c.volume.node && c.volume.phase != volumeReleased {
				return fmt.Errorf("%w: claim %d has a volume on node %d and a promise on %d", ErrInconsistent, c.id, c.volume.node, c.promised)
			}
		}
		if c.api.bound && !c.api.deleted && c.api.selected != c.volume.node {
			return fmt.Errorf("%w: claim %d is bound on node %d and was wanted on %d", ErrInconsistent, c.id, c.volume.node, c.api.selected)
		}
		if bound := c.pod.sched; bound.state == ended && bound.node != c.volume.node {
			return fmt.Errorf("%w: pod %d is on node %d, its volume on %d", ErrInconsistent, c.pod.id, bound.node, c.volume.node)
		}
	}
	for i, n := range w.nodes {
		if n.promised != promised[i] || n.allocated > n.poolBytes || n.allocated < 0 {
			return fmt.Errorf("%w: node %d: promised %d, claims say %d; allocated %d of %d", ErrInconsistent, i, n.promised, promised[i], n.allocated, n.poolBytes)
		}
		// Volumes that are being made, or deleted, have no object.
		if w.open == 0 && n.allocated != allocated[i] {
			return fmt.Errorf("%w: node %d: allocated %d, volumes have %d", ErrInconsistent, i, n.allocated, allocated[i])
		}
	}
	return nil
}
