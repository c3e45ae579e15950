package schedplugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
)

// PreFilter works out what the pod wants of each driver's pools, all volumes
// together. Pods that want nothing are skipped. What no node can satisfy is
// refused here, with the objects' names.
func (p *LocalCapacity) PreFilter(ctx context.Context, state framework.CycleState, pod *v1.Pod, _ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	// A pod that has a node is here for a deferred resize; its volumes are placed.
	if pod.Spec.NodeName != "" || !p.relevant(pod) {
		return nil, framework.NewStatus(framework.Skip)
	}
	c := &cycle{explained: klog.FromContext(ctx).V(5).Enabled()}
	for _, books := range p.drivers {
		if !books.checkSynced() {
			return nil, p.refusePod(ctx, pod, c, framework.Unschedulable, Refusal{Reason: ReasonNotSynced, Detail: books.ledger.driver})
		}
		d, refusal, err := driverCycleOf(books, pod)
		if err != nil {
			return nil, framework.AsStatus(err)
		}
		if refusal != nil {
			return nil, p.refusePod(ctx, pod, c, framework.UnschedulableAndUnresolvable, *refusal)
		}
		if d.concerns() {
			c.drivers = append(c.drivers, d)
		}
	}
	if len(c.drivers) == 0 {
		return nil, framework.NewStatus(framework.Skip)
	}
	p.shared.waiting.begin(pod, c)
	state.Write(stateKey, &cycleState{cycle: c})
	return nil, nil
}

// refusePod refuses the pod on every node, for now.
func (p *LocalCapacity) refusePod(ctx context.Context, pod *v1.Pod, c *cycle, code framework.Code, refusal Refusal) *framework.Status {
	c.drivers, c.refusal = nil, refusal.Reason
	c.refused.Store(true)
	p.shared.waiting.begin(pod, c)
	p.shared.metrics.count(refusal.Reason)
	klog.FromContext(ctx).V(4).Info("Pod refused", "pod", klog.KObj(pod), "reason", refusal.Reason, "detail", refusal.Detail)
	return framework.NewStatus(code, refusal.String())
}

// driverCycleOf works out what the pod wants of one driver.
func driverCycleOf(books *driverBooks, pod *v1.Pod) (driverCycle, *Refusal, error) {
	l := books.ledger
	wants, refusal, err := l.Wants(pod)
	if err != nil || refusal != nil {
		return driverCycle{}, refusal, err
	}
	d := driverCycle{books: books, wants: wants}
	d.inline, d.claims = volumesOf(l, pod)
	return d, nil, nil
}

// concerns tells whether any node could be refused: for bytes, or for slots,
// which VolumeBinding's companion NodeVolumeLimits checks too, but without
// inline volumes.
func (d *driverCycle) concerns() bool {
	return d.wants.Len() > 0 || len(d.claims) > 0 && d.books.ledger.anyInline()
}

// volumesOf are the pod's volumes of the driver: how many are inline, and the
// keys of the others.
func volumesOf(l *Ledger, pod *v1.Pod) (inline int, claims []key) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		name := types.NamespacedName{Namespace: pod.Namespace}
		switch {
		case isInline(l.driver, v):
			inline++
			continue
		case v.PersistentVolumeClaim != nil:
			name.Name = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			name.Name = ephemeral.VolumeClaimName(pod, v)
		default:
			continue
		}
		if k, ours := l.claimIsOurs(name); ours {
			claims = append(claims, k)
		}
	}
	return inline, claims
}

// PreFilterExtensions returns the plugin itself: see AddPod.
func (p *LocalCapacity) PreFilterExtensions() framework.PreFilterExtensions { return p }
