package sim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// cluster is the API server and the nodes' disks: what is true, while everybody
// else sees it late.
type cluster struct {
	*clock
	random   *rand.Rand
	timing   Timing
	platform Platform
	nodes    []*node
	pods     []*pod
	claims   []*claim
	watches  []*watch

	// oversold is the sum over all nodes of what was promised beyond the pool's
	// size; in bytes, and so is its peak.
	oversold, oversoldPeak int64
	// failedCreates counts CreateVolume calls that answered ResourceExhausted.
	failedCreates int
	// writes counts API requests by who sent them.
	writes map[string]*int
	// open is how many pods are not bound yet, or are still to be deleted with
	// their volumes.
	open int
	// lastBound is when the last pod was bound, bound how many were.
	lastBound time.Duration
	bound     int
}

type node struct {
	name string
	// poolBytes is the pool's size. allocated are the bytes of volumes that exist;
	// promised also those of claims for which this node was chosen, and not taken
	// back in the API yet.
	poolBytes, allocated, promised int64
	// busyUntil: the driver makes and deletes one volume at a time.
	busyUntil time.Duration
}

func (n *node) available() int64 { return n.poolBytes - n.allocated }

func (n *node) oversold() int64 { return max(0, n.promised-n.poolBytes) }

type pod struct {
	id     int
	spec   *PodSpec
	claims []*claim
	// sched is the scheduler's.
	sched podSchedule
}

// requested is what the pod's claims ask for together, in bytes.
func requested(p *pod) int64 {
	var sum int64
	for _, c := range p.claims {
		sum += c.bytes
	}
	return sum
}

type claim struct {
	id         int
	pod        *pod
	bytes      int64
	createTime time.Duration
	// api and volume are the claim and its PersistentVolume in the API.
	api    claimState
	volume volumeState
	// promised is the node that holds a promise for the claim, none if there is no such.
	promised int
	// creating: a provisioner works on it.
	creating bool
}

// none is where no node is.
const none = -1

// claimState is what there is to see of a claim.
type claimState struct {
	// version counts the changes; 0: not created yet.
	version int
	// selected is the node in the selected-node annotation.
	selected int
	// annotated: storage-provisioner is set. bound: it names its volume, and the
	// binding is complete.
	annotated, bound, deleted bool
}

// volumeState is what there is to see of a claim's PersistentVolume.
type volumeState struct {
	version int
	phase   volumePhase
	node    int
}

type volumePhase int

const (
	volumeMissing volumePhase = iota
	volumeMade
	volumeBound
	volumeReleased
	volumeGone
)

// exists tells whether the object is there.
func (v volumeState) exists() bool { return v.phase != volumeMissing && v.phase != volumeGone }

// watcher has informers for claims and volumes.
type watcher interface {
	sawClaim(c *claim, now claimState)
	sawVolume(c *claim, now volumeState)
}

// watch is a watcher's two streams.
type watch struct {
	watcher         watcher
	claims, volumes *stream
}

func newCluster(t Trace) *cluster {
	o := t.Options
	c := &cluster{clock: &clock{}, random: rand.New(rand.NewPCG(o.Seed, 0x72756e)), timing: o.Timing, platform: o.Platform, writes: map[string]*int{}}
	for i, bytes := range t.PoolBytes {
		c.nodes = append(c.nodes, &node{name: fmt.Sprintf("node-%03d", i), poolBytes: bytes})
	}
	for i := range t.Pods {
		p := &pod{id: i, spec: &t.Pods[i], sched: podSchedule{node: none}}
		for j, bytes := range p.spec.ClaimBytes {
			cl := &claim{id: len(c.claims), pod: p, bytes: bytes, createTime: p.spec.CreateTimes[j], promised: none, api: claimState{selected: none}, volume: volumeState{node: none}}
			p.claims = append(p.claims, cl)
			c.claims = append(c.claims, cl)
		}
		c.pods = append(c.pods, p)
	}
	c.open = len(c.pods)
	return c
}

// latency returns a source of latencies about a mean.
func (c *cluster) latency(mean time.Duration) func() time.Duration {
	return func() time.Duration { return around(c.random, mean) }
}

func (c *cluster) newStream() *stream {
	return &stream{clock: c.clock, delay: c.latency(c.timing.Watch)}
}

// newClient is an API client of its own, whose requests count under name.
func (c *cluster) newClient(name string, perSecond, burst float64) *client {
	if c.writes[name] == nil {
		c.writes[name] = new(int)
	}
	return &client{clock: c.clock, limiter: newLimiter(c.clock, perSecond, burst), latency: c.latency(c.timing.APIWrite), writes: c.writes[name]}
}

func (c *cluster) watch(w watcher) {
	c.watches = append(c.watches, &watch{watcher: w, claims: c.newStream(), volumes: c.newStream()})
}

// changeClaim changes the claim in the API, and tells all watchers.
func (c *cluster) changeClaim(cl *claim, change func(*claimState)) {
	change(&cl.api)
	cl.api.version++
	now := cl.api
	for _, w := range c.watches {
		w.claims.send(func() { w.watcher.sawClaim(cl, now) })
	}
}

// changeVolume changes the claim's PersistentVolume in the API.
func (c *cluster) changeVolume(cl *claim, phase volumePhase) {
	cl.volume.phase = phase
	cl.volume.version++
	now := cl.volume
	for _, w := range c.watches {
		w.volumes.send(func() { w.watcher.sawVolume(cl, now) })
	}
}

// promise books that the claim's bytes are to be on the node, or, with none,
// that they are not any more.
func (c *cluster) promise(cl *claim, to int) {
	for _, change := range []struct {
		node  int
		bytes int64
	}{{cl.promised, -cl.bytes}, {to, cl.bytes}} {
		if change.node == none {
			continue
		}
		n := c.nodes[change.node]
		c.oversold -= n.oversold()
		n.promised += change.bytes
		c.oversold += n.oversold()
	}
	cl.promised = to
	c.oversoldPeak = max(c.oversoldPeak, c.oversold)
}

// onNode does something that takes the driver's time on a node, when its turn
// comes: first begin, then end.
func (c *cluster) onNode(n *node, takes time.Duration, begin, end func()) {
	start := max(c.now, n.busyUntil)
	n.busyUntil = start + takes
	c.at(start, begin)
	c.at(n.busyUntil, end)
}

// podBound books the end of a pod's way, or the beginning of its last.
func (c *cluster) podBound(p *pod, deleted func()) {
	c.bound++
	c.lastBound = c.now
	if p.spec.Lifetime == 0 {
		c.open--
		return
	}
	c.after(p.spec.Lifetime, func() {
		if len(p.claims) == 0 {
			c.open--
		}
		deleted()
		for _, cl := range p.claims {
			c.changeClaim(cl, func(s *claimState) { s.deleted = true })
		}
	})
}

// volumeGone books the end of a volume.
func (c *cluster) volumeGone(cl *claim) {
	c.changeVolume(cl, volumeGone)
	for _, other := range cl.pod.claims {
		if other.volume.phase != volumeGone {
			return
		}
	}
	c.open--
}
