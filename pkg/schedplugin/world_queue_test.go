package schedplugin

import (
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
)

// hint is what the scheduling queue makes of an event: it asks the plugins that
// refused a pod.
func (w *world) hint(n notice) {
	registered, err := w.plugin.EventsToRegister(context.Background())
	must(w.t, err)
	for _, uid := range slices.Sorted(maps.Keys(w.waiting)) {
		pod, rejected := w.cachedPod(uid), w.waiting[uid]
		if pod == nil {
			delete(w.waiting, uid)
			continue
		}
		wake := rejected.byBinder && binderHint(n, pod)
		for _, r := range registered {
			if wake || !rejected.byUs || !matches(r.Event, n) {
				continue
			}
			queue, err := r.QueueingHintFn(klog.Background(), pod, object(n.before), object(n.after))
			must(w.t, err)
			wake = queue == framework.Queue
		}
		if wake {
			delete(w.waiting, uid)
			w.active[uid] = true
		}
	}
}

func object(o metav1.Object) any {
	if o == nil {
		return nil
	}
	return o
}

var resourcesOf = [streams]framework.EventResource{framework.Node, framework.CSINode, framework.PersistentVolume,
	framework.PersistentVolumeClaim, framework.AssignedPod, framework.StorageClass}

func matches(e framework.ClusterEvent, n notice) bool {
	if e.Resource != resourcesOf[n.stream] {
		return false
	}
	switch {
	case n.before == nil:
		return e.ActionType&framework.Add != 0
	case n.after == nil:
		pod, isPod := n.before.(*v1.Pod)
		return e.ActionType&framework.Delete != 0 && (!isPod || pod.Spec.NodeName != "")
	case n.stream == streamNodes:
		return e.ActionType&(framework.UpdateNodeAnnotation|framework.UpdateNodeLabel) != 0
	default:
		return e.ActionType&framework.Update == framework.Update
	}
}

// binderHint is VolumeBinding's: any volume, the pod's own claims, classes, new nodes.
func binderHint(n notice, pod *v1.Pod) bool {
	switch n.stream {
	case streamVolumes, streamClasses:
		return n.after != nil
	case streamNodes:
		return n.before == nil
	case streamClaims:
		return n.after != nil && slices.Contains(claimsOf(pod), n.after.GetName())
	default:
		return false
	}
}
