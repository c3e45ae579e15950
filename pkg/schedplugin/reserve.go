package schedplugin

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
)

// Reserve charges the pod's volumes to the node, until the API tells of them or
// the cycle fails. It decides once more: something may have happened since Filter.
func (p *LocalCapacity) Reserve(ctx context.Context, state framework.CycleState, pod *v1.Pod, node string) *framework.Status {
	s := stateOf(state)
	if s == nil {
		return nil
	}
	for i := range s.drivers {
		d := &s.drivers[i]
		short, ok, err := d.books.ledger.Reserve(pod, node, d.wants)
		if err != nil {
			p.unreserve(ctx, s.cycle, pod)
			return framework.AsStatus(err)
		}
		if !ok {
			p.unreserve(ctx, s.cycle, pod)
			status := p.refuseNode(s.cycle, node, short)
			p.shared.waiting.announce(p.handle.EventRecorder().WithLogger(klog.FromContext(ctx)), pod, s.cycle)
			return status
		}
	}
	s.refused.Store(false)
	p.shared.metrics.countReserved()
	return nil
}

// Permit never waits. It marks the point from which VolumeBinding may write
// selected-node: see Unreserve.
func (p *LocalCapacity) Permit(_ context.Context, state framework.CycleState, _ *v1.Pod, _ string) (*framework.Status, time.Duration) {
	if s := stateOf(state); s != nil {
		s.mayBeWritten.Store(true)
	}
	return nil, 0
}

// Unreserve gives back what the pod's cycle reserved. Before Permit that undoes
// Reserve exactly. After it, a claim that may name the node in the API by now
// stays charged until the API has been asked. It may be called without Reserve,
// and repeatedly.
func (p *LocalCapacity) Unreserve(ctx context.Context, state framework.CycleState, pod *v1.Pod, _ string) {
	if s := stateOf(state); s != nil {
		p.unreserve(ctx, s.cycle, pod)
	}
}

func (p *LocalCapacity) unreserve(ctx context.Context, c *cycle, pod *v1.Pod) {
	for i := range c.drivers {
		l := c.drivers[i].books.ledger
		unsettled, err := l.Unreserve(pod.UID, c.mayBeWritten.Load())
		if err != nil {
			klog.FromContext(ctx).Error(err, "A reservation could not be taken back", "pod", klog.KObj(pod), "driver", l.driver)
		}
		for _, u := range unsettled {
			p.shared.settle(l, u)
		}
	}
}

// PostBind ends the pod's reservations: its claims are bound.
func (p *LocalCapacity) PostBind(ctx context.Context, state framework.CycleState, pod *v1.Pod, _ string) {
	s := stateOf(state)
	if s == nil {
		return
	}
	wake := false
	for i := range s.drivers {
		l := s.drivers[i].books.ledger
		released, err := l.Bound(pod)
		if err != nil {
			klog.FromContext(ctx).Error(err, "A reservation could not be ended", "pod", klog.KObj(pod), "driver", l.driver)
		}
		wake = wake || released
	}
	p.shared.waiting.forget(pod.UID)
	if wake {
		p.shared.waiting.wake(klog.FromContext(ctx))
	}
}
