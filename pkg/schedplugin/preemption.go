package schedplugin

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/kube-scheduler/framework"
)

// AddPod thinks a pod onto the node: a victim that is spared after all, or a pod
// that is nominated for the node and has made no reservation yet.
func (p *LocalCapacity) AddPod(_ context.Context, state framework.CycleState, _ *v1.Pod, added framework.PodInfo, nodeInfo framework.NodeInfo) *framework.Status {
	s, pod, node := stateOf(state), added.GetPod(), nodeInfo.Node().Name
	if s == nil || !p.relevant(pod) {
		return nil
	}
	for i := range s.drivers {
		l := s.drivers[i].books.ledger
		if s.unthink(l, ephemeralKeys(l, pod), node) {
			continue
		}
		wants, refusal, err := l.Wants(pod)
		if err != nil {
			return framework.AsStatus(err)
		}
		if refusal != nil {
			continue // it will not run, so it takes nothing
		}
		s.what = append(s.what, l.wouldCharge(wants.list, node)...)
	}
	return nil
}

// RemovePod thinks a pod away, with the volumes that go when it goes. Claims of
// its own stay, and so do their volumes.
func (p *LocalCapacity) RemovePod(_ context.Context, state framework.CycleState, _ *v1.Pod, removed framework.PodInfo, nodeInfo framework.NodeInfo) *framework.Status {
	s, pod, node := stateOf(state), removed.GetPod(), nodeInfo.Node().Name
	if s == nil || !p.relevant(pod) {
		return nil
	}
	for i := range s.drivers {
		l := s.drivers[i].books.ledger
		keys := ephemeralKeys(l, pod)
		if s.unthink(l, keys, node) {
			continue
		}
		for _, k := range keys {
			for _, c := range l.chargesOn(k, node) {
				s.what = append(s.what, adjustment{ledger: l, key: k, node: node, pool: c.pool, bytes: -c.bytes})
			}
		}
	}
	return nil
}

// unthink takes back an earlier change for the same volumes.
func (s *cycleState) unthink(l *Ledger, keys []key, node string) bool {
	before := len(s.what)
	s.what = slices.DeleteFunc(s.what, func(a adjustment) bool {
		return a.ledger == l && a.node == node && slices.Contains(keys, a.key)
	})
	return len(s.what) != before
}

// ephemeralKeys are the pod's volumes that go when it goes.
func ephemeralKeys(l *Ledger, pod *v1.Pod) []key {
	var keys []key
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if isInline(l.driver, v) {
			keys = append(keys, inlineKey(pod.UID, v.Name))
		} else if v.Ephemeral != nil {
			name := types.NamespacedName{Namespace: pod.Namespace, Name: ephemeral.VolumeClaimName(pod, v)}
			if k, ours := l.claimIsOurs(name); ours {
				keys = append(keys, k)
			}
		}
	}
	return keys
}

// wouldCharge is what the wants would add to the node's books.
func (l *Ledger) wouldCharge(wants []want, node string) []adjustment {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var what []adjustment
	for i := range wants {
		w := &wants[i]
		if here, _ := l.entries[w.key].chargedTo(node); !here {
			what = append(what, adjustment{ledger: l, key: w.key, node: node, pool: w.demand.pool, bytes: w.bytesOn(l.nodes[node].pool(w.demand.pool))})
		}
	}
	return what
}
