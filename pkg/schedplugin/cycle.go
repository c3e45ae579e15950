package schedplugin

import (
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/kube-scheduler/framework"
)

// cycleState is what the plugin keeps of one scheduling cycle. The cycle itself
// is shared by all copies; preemption's what-if is each copy's own.
type cycleState struct {
	*cycle
	// what is changed by AddPod and RemovePod only, on a copy.
	what []adjustment
}

// Clone copies what AddPod and RemovePod change.
func (s *cycleState) Clone() framework.StateData {
	return &cycleState{cycle: s.cycle, what: slices.Clone(s.what)}
}

// cycle is one attempt to schedule a pod. All but the atomics and what mu
// protects is written in PreFilter only.
type cycle struct {
	drivers []driverCycle
	// refusal is set if no node at all was looked at.
	refusal Reason
	// explained: the log is to show every sum.
	explained bool
	// mayBeWritten: Permit was passed, so selected-node may be in the API.
	mayBeWritten atomic.Bool
	// refused: some node, or the pod as a whole, was refused by this plugin;
	// slotless: for lack of a volume slot.
	refused, slotless atomic.Bool

	// mu protects what follows; nodes are filtered at the same time.
	mu          sync.Mutex
	refusals    int
	nearest     Shortage
	nearestNode string
	statuses    statuses
}

// driverCycle is what the pod wants of one driver.
type driverCycle struct {
	books *driverBooks
	wants Wants
	// claims are the pod's volumes of the driver that are claims, wanted or
	// bound; inline is how many are not.
	claims []key
	inline int
}

// refuse notes a node's refusal, keeps the figures of the one that came nearest,
// and returns the node's status.
func (c *cycle) refuse(node string, short Shortage) *framework.Status {
	c.refused.Store(true)
	if short.Reason == ReasonTooManyVolumes {
		c.slotless.Store(true)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusals++
	if c.refusals == 1 || nearer(short, c.nearest) || short == c.nearest && node < c.nearestNode {
		c.nearest, c.nearestNode = short, node
	}
	return c.statuses.next(short.Reason, short.Preemptible)
}

// statuses makes the statuses of refused nodes, of which there may be thousands
// with the same text. Each node needs one of its own, because the scheduler writes
// into them.
type statuses struct {
	// like are those made first, by what they say.
	like [reasons][2]*framework.Status
	// spare are made already and not used yet; made is how many there were.
	spare []framework.Status
	made  int
}

const (
	firstStatuses = 8
	mostStatuses  = 1024
)

func (s *statuses) next(r Reason, preemptible bool) *framework.Status {
	code, i := framework.UnschedulableAndUnresolvable, 0
	if preemptible {
		code, i = framework.Unschedulable, 1
	}
	if s.like[r][i] == nil {
		s.like[r][i] = framework.NewStatus(code, r.String())
	}
	if len(s.spare) == 0 {
		n := min(max(s.made, firstStatuses), mostStatuses)
		s.spare, s.made = make([]framework.Status, n), s.made+n
	}
	next := &s.spare[0]
	s.spare = s.spare[1:]
	*next = *s.like[r][i]
	return next
}

// nearer prefers a node that only lacks bytes, and of those the one that lacks
// the fewest.
func nearer(a, b Shortage) bool {
	if a.Reason != b.Reason {
		return a.Reason < b.Reason
	}
	return a.Requested-a.Left < b.Requested-b.Left
}

// stateOf returns the plugin's state of the cycle, nil if PreFilter skipped the pod.
func stateOf(state framework.CycleState) *cycleState {
	data, err := state.Read(stateKey)
	if err != nil {
		return nil
	}
	s, ok := data.(*cycleState)
	if !ok {
		return nil
	}
	return s
}
