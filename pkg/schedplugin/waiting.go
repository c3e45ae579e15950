package schedplugin

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
)

// waiting knows the pods that were refused, for hints, and for waking them when
// bytes become free without an event.
type waiting struct {
	activator framework.PodActivator
	pods      corelisters.PodLister
	now       func() time.Time

	// mu protects attempts. The scheduling queue calls hints, and so this, with
	// its lock held: never call the queue with mu held.
	mu       sync.Mutex
	attempts map[types.UID]*attempt
	// pruneAt is the number of attempts at which the deleted ones are looked for.
	pruneAt int
	// budget is how many events may be written now; see allow.
	budget   float64
	budgetAt time.Time
}

// attempt is a pod and its last scheduling cycle.
type attempt struct {
	pod   *v1.Pod
	cycle *cycle
	// told is the text of the pod's last event, at told At.
	told   string
	toldAt time.Time
}

const minPrune = 1024

func newWaiting(activator framework.PodActivator, pods corelisters.PodLister, now func() time.Time) *waiting {
	return &waiting{activator: activator, pods: pods, now: now, attempts: map[types.UID]*attempt{}, pruneAt: minPrune, budget: eventBurst, budgetAt: now()}
}

// begin notes the pod's scheduling cycle, in place of its last one.
func (w *waiting) begin(pod *v1.Pod, c *cycle) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a, ok := w.attempts[pod.UID]; ok {
		a.pod, a.cycle = pod, c
		return
	}
	w.attempts[pod.UID] = &attempt{pod: pod, cycle: c}
	if len(w.attempts) >= w.pruneAt {
		w.prune()
		w.pruneAt = max(2*len(w.attempts), minPrune)
	}
}

// prune drops the pods whose deletion was missed.
func (w *waiting) prune() {
	for uid, a := range w.attempts {
		pod, err := w.pods.Pods(a.pod.Namespace).Get(a.pod.Name)
		if gone, err := absent(err); err == nil && (gone || pod.UID != uid) {
			delete(w.attempts, uid)
		}
	}
}

// forget is for a pod that is bound or gone.
func (w *waiting) forget(pod types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.attempts, pod)
}

// last is the pod's last cycle, nil if it is not known.
func (w *waiting) last(pod types.UID) *cycle {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a, ok := w.attempts[pod]; ok {
		return a.cycle
	}
	return nil
}

// wake puts every pod that was refused back into the queue. It must not be
// called from a hint.
func (w *waiting) wake(log klog.Logger) {
	pods := map[string]*v1.Pod{}
	w.mu.Lock()
	w.prune()
	for uid, a := range w.attempts {
		if a.cycle.refused.Load() {
			pods[string(uid)] = a.pod
		}
	}
	w.mu.Unlock()
	if len(pods) > 0 {
		w.activator.Activate(log, pods)
	}
}
