package storm

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// kubeletWorkers write statuses for all nodes.
const kubeletWorkers = 8

// observer watches the pods: it notes when each was created and bound, and is the
// kubelet of every node, which says that a bound pod runs.
type observer struct {
	client  kubernetes.Interface
	factory informers.SharedInformerFactory
	pods    cache.SharedIndexInformer
	kubelet workqueue.TypedRateLimitingInterface[string] // nil if no kubelet is wanted
	work    sync.WaitGroup

	mu      sync.Mutex
	created map[string]time.Time
	bound   map[string]binding
	last    time.Time // when the last one was bound
}

type binding struct {
	node string
	at   time.Time
}

func newObserver(client kubernetes.Interface, withKubelet bool) (*observer, error) {
	o := &observer{client: client, factory: informers.NewSharedInformerFactory(client, 0), created: map[string]time.Time{}, bound: map[string]binding{}}
	if withKubelet {
		o.kubelet = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	}
	o.pods = o.factory.Core().V1().Pods().Informer()
	_, err := o.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: o.see, UpdateFunc: func(_, object any) { o.see(object) }})
	return o, err
}

func (o *observer) start(ctx context.Context) error {
	o.factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), o.pods.HasSynced) {
		return fmt.Errorf("watching pods: %w", ctx.Err())
	}
	if o.kubelet == nil {
		return nil
	}
	for range kubeletWorkers {
		o.work.Go(func() { o.runKubelet(ctx) })
	}
	o.work.Go(func() {
		<-ctx.Done()
		o.kubelet.ShutDown()
	})
	return nil
}

// wait returns when all has ended after start's ctx.
func (o *observer) wait() {
	o.work.Wait()
	o.factory.Shutdown()
}

func (o *observer) see(object any) {
	p, ok := object.(*v1.Pod)
	if !ok {
		return
	}
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, known := o.created[p.Name]; !known {
		o.created[p.Name] = now
	}
	if p.Spec.NodeName == "" {
		return
	}
	if _, known := o.bound[p.Name]; !known {
		o.bound[p.Name] = binding{p.Spec.NodeName, now}
		o.last = now
	}
	if o.kubelet != nil && p.Status.Phase == v1.PodPending {
		o.kubelet.Add(p.Name)
	}
}

func (o *observer) runKubelet(ctx context.Context) {
	for {
		name, down := o.kubelet.Get()
		if down {
			return
		}
		if err := o.setRunning(ctx, name); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "A status is written again", "pod", name)
			o.kubelet.AddRateLimited(name)
		} else {
			o.kubelet.Forget(name)
		}
		o.kubelet.Done(name)
	}
}

func (o *observer) setRunning(ctx context.Context, name string) error {
	object, there, err := o.pods.GetStore().GetByKey(namespace + "/" + name)
	if err != nil || !there {
		return err
	}
	if p, ok := object.(*v1.Pod); !ok || p.Status.Phase == v1.PodRunning {
		return nil
	}
	patch := []byte(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)
	_, err = o.client.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// counts are how many pods were seen, and how many of them are bound.
func (o *observer) counts() (created, bound int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.created), len(o.bound)
}

// lastBound is when a pod was bound last; zero if none was.
func (o *observer) lastBound() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

// nodeOf is the pod's node, if it has one.
func (o *observer) nodeOf(pod string) (string, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b, there := o.bound[pod]
	return b.node, there
}

// boundTimes are those of some pods, sorted.
func (o *observer) boundTimes(of func(pod string) bool) []time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	var times []time.Time
	for name, b := range o.bound {
		if of(name) {
			times = append(times, b.at)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return times
}

// latencies are how long pods waited for their node, sorted.
func (o *observer) latencies() []time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []time.Duration
	for name, b := range o.bound {
		all = append(all, b.at.Sub(o.created[name]))
	}
	slices.Sort(all)
	return all
}
