package sim

import (
	"errors"
	"time"
)

// scheduler is kube-scheduler: its queue, and one scheduling cycle after the
// other; binding.go has the binding cycles.
type scheduler struct {
	cluster *cluster
	client  *client
	tracker tracker
	// capacityPlugin is the plugin that refuses in the tracker's name.
	capacityPlugin rejection

	// claims and volumes are the informers' caches, by the claim's id.
	claims  []claimState
	volumes []volumeState
	// podsOn counts the pods on each node, those that are assumed included.
	podsOn []int

	active  []*pod
	popable []*pod
	waiting []*pod
	busy    bool
	// start is where the next cycle begins to look.
	start int
	// What a cycle works with.
	feasible []int
	scores   []int64

	// leastAllocated is the score by the number of pods on a node.
	leastAllocated []int64
	err            error
}

// rejection says which plugins refused a pod.
type rejection uint8

const (
	byResources rejection = 1 << iota // NodeResourcesFit
	byBinding                         // VolumeBinding
	byTracker                         // LocalCapacity, or an extender
)

// queueState is where a pod is.
type queueState int

const (
	notThere queueState = iota
	inActive
	inBackoff
	unschedulable
	binding
	ended
)

// podSchedule is what the scheduler knows of a pod.
type podSchedule struct {
	state queueState
	// node is where the pod is assumed or bound.
	node int
	// rejected is why it waits, since when, and until when its backoff lasts.
	rejected     rejection
	since        time.Duration
	backoffUntil time.Duration
	// refusals and errors count the failed cycles; errors in a row.
	refusals, errors int
	// told is what the pod's status says.
	told string
	// listed: it stands in scheduler.waiting.
	listed bool
	// wrote are the claims' versions that the binding cycle begins with, or has
	// written. It looks for their binding each second from pollsFrom on, 0 if it
	// does not; the next look is at pollDue.
	wrote              []int
	pollsFrom, pollDue time.Duration
}

// Source: pkg/scheduler/backend/queue/scheduling_queue.go.
const (
	initialBackoff = time.Second
	maxBackoff     = 10 * time.Second
	// After maxUnschedulable a pod is tried again in any case; flushPeriod is how
	// often is looked for such pods (scheduling_queue.go, Run).
	maxUnschedulable = 5 * time.Minute
	flushPeriod      = 30 * time.Second
)

// Source: pkg/scheduler/schedule_one.go.
const minFeasibleNodes, minFeasiblePercent = 100, 5

func newScheduler(c *cluster) *scheduler {
	s := &scheduler{cluster: c, client: c.newClient("kube-scheduler", c.platform.SchedulerQPS, c.platform.SchedulerBurst), tracker: untracked{}, capacityPlugin: byTracker,
		claims: make([]claimState, len(c.claims)), volumes: make([]volumeState, len(c.claims)), podsOn: make([]int, len(c.nodes)),
		leastAllocated: leastAllocated(c.platform)}
	for i := range s.claims {
		s.claims[i].selected, s.volumes[i].node = none, none
	}
	c.every(flushPeriod, flushPeriod, func() {
		s.wake(func(p *pod) bool { return c.now-p.sched.since > maxUnschedulable })
	})
	return s
}

// leastAllocated is NodeResourcesFit's score. The pods ask for no resources, so
// they count as 100m of CPU and 200 MiB of memory each (and score nothing in
// NodeResourcesBalancedAllocation, which skips such pods).
//
// Sources: pkg/scheduler/framework/plugins/noderesources/least_allocated.go,
// balanced_allocation.go (PreScore); pkg/scheduler/util/pod_resources.go.
func leastAllocated(f Platform) []int64 {
	score := func(requested, allocatable int64) int64 {
		if requested > allocatable {
			return 0
		}
		return (allocatable - requested) * 100 / allocatable
	}
	scores := make([]int64, f.PodsPerNode+1)
	for pods := range scores {
		scores[pods] = (score(int64(pods)*100, f.NodeMilliCPU) + score(int64(pods)*200<<20, f.NodeMemoryBytes)) / 2
	}
	return scores
}

// sawPod: the informer has a new pod.
func (s *scheduler) sawPod(p *pod) { s.activate(p) }

func (s *scheduler) activate(p *pod) {
	p.sched.state = inActive
	s.active = append(s.active, p)
	s.next()
}

// next begins the next scheduling cycle.
func (s *scheduler) next() {
	if s.busy {
		return
	}
	p := s.pop()
	if p == nil {
		return
	}
	s.busy = true
	takes := around(s.cluster.random, s.cluster.timing.Cycle)
	if _, ok := s.tracker.(*extender); ok {
		takes += around(s.cluster.random, s.cluster.timing.Extender)
	}
	s.cluster.after(takes, func() {
		s.cycle(p)
		s.busy = false
		s.next()
	})
}

// pop takes a pod from activeQ, or, where that is the platform's way, one whose
// backoff is not over if there is no other.
func (s *scheduler) pop() *pod {
	if len(s.active) > 0 {
		p := s.active[0]
		s.active = s.active[1:]
		return p
	}
	for len(s.popable) > 0 {
		p := s.popable[0]
		s.popable = s.popable[1:]
		if p.sched.state == inBackoff {
			p.sched.state = inActive
			return p
		}
	}
	return nil
}

// cycle is one scheduling cycle.
func (s *scheduler) cycle(p *pod) {
	if s.failed(s.tracker.begin(p)) {
		return
	}
	if p.sched.rejected = s.filter(p); len(s.feasible) == 0 {
		s.refuse(p)
		return
	}
	node := s.choose(p)
	ok, err := s.tracker.reserve(p, node)
	if s.failed(err) {
		return
	}
	if !ok {
		p.sched.rejected = s.capacityPlugin
		s.refuse(p)
		return
	}
	p.sched.state, p.sched.node = binding, node
	s.podsOn[node]++
	for _, c := range p.claims {
		if s.claims[c.id].selected == none {
			s.cluster.promise(c, node)
		}
	}
	s.bind(p)
}

// filter collects the nodes that will do in s.feasible, as many as the scheduler
// looks for, and returns who refused others.
//
// Source: pkg/scheduler/schedule_one.go, findNodesThatPassFilters, numFeasibleNodesToFind.
func (s *scheduler) filter(p *pod) (rejected rejection) {
	all := len(s.cluster.nodes)
	enough := all
	if all >= minFeasibleNodes {
		enough = max(minFeasibleNodes, all*max(minFeasiblePercent, 50-all/125)/100)
	}
	s.feasible = s.feasible[:0]
	looked := 0
	for ; looked < all && len(s.feasible) < enough; looked++ {
		node := (s.start + looked) % all
		switch {
		case s.podsOn[node] >= s.cluster.platform.PodsPerNode:
			rejected |= byResources
		case !s.reachable(p, node):
			rejected |= byBinding
		case !s.tracker.fits(p, node):
			rejected |= s.capacityPlugin
		default:
			s.feasible = append(s.feasible, node)
		}
	}
	s.start = (s.start + looked) % all
	return rejected
}

// reachable is VolumeBinding's check of claims that have a volume, or a node.
//
// Source: pkg/scheduler/framework/plugins/volumebinding/binder.go, FindPodVolumes.
func (s *scheduler) reachable(p *pod, node int) bool {
	for _, c := range p.claims {
		if seen := s.claims[c.id]; seen.selected != none && seen.selected != node {
			return false
		}
	}
	return true
}

// choose returns the node with the highest score; at random among equals.
//
// Source: pkg/scheduler/schedule_one.go, prioritizeNodes: Randomizer.
func (s *scheduler) choose(p *pod) int {
	if len(s.feasible) == 1 {
		return s.feasible[0]
	}
	s.scores = append(s.scores[:0], make([]int64, len(s.feasible))...)
	for i, node := range s.feasible {
		s.scores[i] = s.leastAllocated[s.podsOn[node]+1]
	}
	s.tracker.score(p, s.feasible, s.scores)
	best, equals := 0, 1
	for i := 1; i < len(s.scores); i++ {
		switch {
		case s.scores[i] > s.scores[best]:
			best, equals = i, 1
		case s.scores[i] == s.scores[best]:
			equals++
			if s.cluster.random.IntN(equals) == 0 {
				best = i
			}
		}
	}
	return s.feasible[best]
}

// refuse puts a pod that fits nowhere aside, until an event may help it.
func (s *scheduler) refuse(p *pod) {
	q := &p.sched
	q.refusals++
	q.errors = 0
	q.state, q.since, q.backoffUntil = unschedulable, s.cluster.now, s.cluster.now+backoff(q.refusals)
	s.tell(p, "refused")
	if !q.listed {
		q.listed = true
		s.waiting = append(s.waiting, p)
	}
}

// tell patches the pod's status, if it says anything new.
func (s *scheduler) tell(p *pod, what string) {
	if p.sched.told != what {
		p.sched.told = what
		s.client.write(func() {})
	}
}

// Source: pkg/scheduler/backend/queue/backoff_queue.go, calculateBackoffDuration.
func backoff(count int) time.Duration {
	if shift := count - 1; shift < 4 {
		return min(maxBackoff, initialBackoff<<shift)
	}
	return maxBackoff
}

// wake queues the unschedulable pods that an event may help.
func (s *scheduler) wake(helps func(*pod) bool) {
	if len(s.waiting) == 0 {
		return
	}
	var woken []*pod
	kept := s.waiting[:0]
	for _, p := range s.waiting {
		switch {
		case p.sched.state != unschedulable:
			p.sched.listed = false
		case helps(p):
			p.sched.listed = false
			woken = append(woken, p)
		default:
			kept = append(kept, p)
		}
	}
	s.waiting = kept
	for _, p := range woken {
		if p.sched.backoffUntil <= s.cluster.now {
			s.activate(p)
			continue
		}
		s.backOff(p)
		if s.cluster.platform.PopFromBackoff {
			s.popable = append(s.popable, p)
			s.next()
		}
	}
}

// backOff lets a pod wait until its backoff is over.
func (s *scheduler) backOff(p *pod) {
	p.sched.state = inBackoff
	until := p.sched.backoffUntil
	s.cluster.at(until, func() {
		if p.sched.state == inBackoff && p.sched.backoffUntil == until {
			s.activate(p)
		}
	})
}

// failed notes a failure of the simulation itself.
func (s *scheduler) failed(err error) bool {
	s.err = errors.Join(s.err, err)
	return err != nil
}

// anyOf tells whether one of the plugins refused the pod.
func anyOf(plugins rejection) func(*pod) bool {
	return func(p *pod) bool { return p.sched.rejected&plugins != 0 }
}
