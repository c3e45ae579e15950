package schedplugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
)

// Filter refuses nodes that have no room for all of the pod's volumes together.
// It compares sums that the ledger keeps: its cost does not depend on how many
// volumes there are, and it allocates nothing unless it refuses.
func (p *LocalCapacity) Filter(ctx context.Context, state framework.CycleState, pod *v1.Pod, nodeInfo framework.NodeInfo) *framework.Status {
	s := stateOf(state)
	if s == nil {
		return nil
	}
	node := nodeInfo.Node().Name
	for i := range s.drivers {
		d := &s.drivers[i]
		short, slots, ok := d.books.ledger.fits(node, d.wants.list, s.what)
		if s.explained {
			explain(klog.FromContext(ctx).V(5), pod, node, d, s.what, short)
		}
		if ok {
			short, ok = d.enoughSlots(slots, nodeInfo)
		}
		if !ok {
			return p.refuseNode(s.cycle, node, short)
		}
	}
	return nil
}

// refuseNode lets preemption try where it can help, and only there.
func (p *LocalCapacity) refuseNode(c *cycle, node string, short Shortage) *framework.Status {
	p.shared.metrics.count(short.Reason)
	return c.refuse(node, short)
}

// enoughSlots compares the volumes that pods use on the node with what its
// CSINode allows. NodeVolumeLimits does the same, but is blind to inline
// volumes; so this looks only where there are some.
func (d *driverCycle) enoughSlots(s slots, nodeInfo framework.NodeInfo) (Shortage, bool) {
	if !s.registered || s.count < 0 || d.inline == 0 && s.inline == 0 {
		return Shortage{}, true
	}
	l := d.books.ledger
	used, there := int64(0), map[key]bool{}
	for _, info := range nodeInfo.GetPods() {
		inline, claims := volumesOf(l, info.GetPod())
		used += int64(inline)
		for _, k := range claims {
			there[k] = true
		}
	}
	used += int64(len(there))
	requested := int64(d.inline)
	for _, k := range d.claims {
		if !there[k] {
			there[k] = true
			requested++
		}
	}
	if requested == 0 || used+requested <= s.count {
		return Shortage{}, true
	}
	return Shortage{Reason: ReasonTooManyVolumes, Requested: requested, Left: s.count - used, Allocatable: s.count, Preemptible: true}, false
}

// PostFilter never makes room; it writes the figures of a refusal into an event
// of the pod. They would make the pod's status different at each attempt.
func (p *LocalCapacity) PostFilter(ctx context.Context, state framework.CycleState, pod *v1.Pod, _ framework.NodeToStatusReader) (*framework.PostFilterResult, *framework.Status) {
	if s := stateOf(state); s != nil {
		p.shared.waiting.announce(p.handle.EventRecorder().WithLogger(klog.FromContext(ctx)), pod, s.cycle)
	}
	return nil, framework.NewStatus(framework.Unschedulable)
}
