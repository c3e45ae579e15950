package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/csi-local/csi-local/test/cluster/installed"
)

// figures are what the repeats have measured, in seconds or counted.
type figures struct {
	bound, running, plainRunning []float64
	twentyBound, twentyRunning   []float64
	twentyFailed, fourteenFailed int
}

func (f *figures) String() string {
	return fmt.Sprintf("claim Bound %.2f s, pod Running %.2f s, without a volume %.2f s; twenty Bound %.1f s, Running %.1f s, %d failed; fourteen for ten %d failed",
		median(f.bound), median(f.running), median(f.plainRunning), median(f.twentyBound), median(f.twentyRunning), f.twentyFailed, f.fourteenFailed)
}

// median is 0 of nothing.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

const (
	smallBytes = 32 * mib
	twenty     = 20
	fourteen   = 14
	ten        = 10
)

// repeat measures everything once, and single pods more often.
func (b *bed) repeat(ctx context.Context, singles int, f *figures) error {
	for range singles {
		if err := b.single(ctx, f); err != nil {
			return err
		}
	}
	if err := b.twenty(ctx, f); err != nil {
		return fmt.Errorf("twenty at once: %w", err)
	}
	if err := b.fourteenForTen(ctx, f); err != nil {
		return fmt.Errorf("fourteen for ten: %w", err)
	}
	return nil
}

// single is a pod without a volume, and then one with.
func (b *bed) single(ctx context.Context, f *figures) error {
	return b.inNamespace(ctx, func(name string) error {
		plain, err := b.round(ctx, name, pods{count: 1, running: 1})
		if err != nil {
			return fmt.Errorf("pod without a volume: %w", err)
		}
		r, err := b.round(ctx, name, pods{count: 1, bytes: smallBytes, running: 1})
		if err != nil {
			return fmt.Errorf("pod with a volume: %w", err)
		}
		f.plainRunning = append(f.plainRunning, plain.running...)
		f.bound, f.running = append(f.bound, r.bound...), append(f.running, r.running...)
		return nil
	})
}

func (b *bed) twenty(ctx context.Context, f *figures) error {
	return b.inNamespace(ctx, func(name string) error {
		r, err := b.round(ctx, name, pods{twenty, smallBytes, twenty})
		if err != nil {
			return err
		}
		f.twentyBound, f.twentyRunning = append(f.twentyBound, slices.Max(r.bound)), append(f.twentyRunning, slices.Max(r.running))
		events, err := b.Client().CoreV1().Events(name).List(ctx, metav1.ListOptions{FieldSelector: "reason=ProvisioningFailed"})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			f.twentyFailed += max(1, int(event.Count))
		}
		return nil
	})
}

// fourteenForTen is for a pool of exactly ten volumes: ten pods run and four wait, of which
// each has been told why.
func (b *bed) fourteenForTen(ctx context.Context, f *figures) error {
	size, err := b.exactFit(ctx, ten)
	if err != nil {
		return err
	}
	failed, err := b.failedIn(ctx, func(name string) error {
		if _, err := b.round(ctx, name, pods{fourteen, size, ten}); err != nil {
			return err
		}
		return installed.Until(ctx, patience, "why four pods wait", func(ctx context.Context) (string, error) {
			pods, err := b.Client().CoreV1().Pods(name).List(ctx, metav1.ListOptions{})
			if err != nil {
				return "", err
			}
			told := 0
			for _, pod := range pods.Items {
				if pod.Status.Phase == corev1.PodPending && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
					return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable && strings.Contains(c.Message, "capacity")
				}) {
					told++
				}
			}
			if told != fourteen-ten {
				return fmt.Sprintf("%d were told", told), nil
			}
			return "", nil
		})
	})
	f.fourteenFailed += failed
	return err
}

// storm fills the node to the last extent, by pods that come at once.
func (b *bed) storm(ctx context.Context) (failed int, err error) {
	size, err := b.exactFit(ctx, twenty)
	if err != nil {
		return 0, err
	}
	return b.failedIn(ctx, func(name string) error {
		r, err := b.round(ctx, name, pods{twenty, size, twenty})
		if err == nil {
			sayf("storm: %d volumes of %d MiB, all Running after %.1f s", twenty, size/mib, slices.Max(r.running))
		}
		return err
	})
}

// failedIn counts the failed creations of what is done in a namespace.
func (b *bed) failedIn(ctx context.Context, do func(name string) error) (failed int, err error) {
	before, err := b.failedCreates(ctx)
	if err != nil {
		return 0, err
	}
	err = b.inNamespace(ctx, func(name string) error {
		if err := do(name); err != nil {
			return err
		}
		after, err := b.failedCreates(ctx)
		failed = after - before
		return err
	})
	return failed, err
}

// times are how long after the first creation claims were Bound and pods Running, in
// seconds and in no order.
type times struct{ bound, running []float64 }

// pods are what a round creates at once: how many, with claims of so many bytes unless that
// is 0, and how many are to run.
type pods struct {
	count   int
	bytes   int64
	running int
}

// prefix is of the names, so that pods with and without volumes can be in one namespace.
func (p pods) prefix() string {
	if p.bytes == 0 {
		return "plain-"
	}
	return "with-volume-"
}

// round creates pods and watches until they run.
func (b *bed) round(ctx context.Context, namespace string, p pods) (times, error) {
	w := &watcher{prefix: p.prefix(), bound: map[string]time.Time{}, running: map[string]time.Time{}}
	stop, err := w.start(ctx, b, namespace)
	if err != nil {
		return times{}, err
	}
	defer stop()
	began := time.Now()
	for i := range p.count {
		name := fmt.Sprintf("%s%02d", p.prefix(), i)
		if p.bytes > 0 {
			if _, err := b.Client().CoreV1().PersistentVolumeClaims(namespace).Create(ctx, claim(name, p.bytes), metav1.CreateOptions{}); err != nil {
				return times{}, err
			}
		}
		if _, err := b.Client().CoreV1().Pods(namespace).Create(ctx, pod(name, p.bytes > 0), metav1.CreateOptions{}); err != nil {
			return times{}, err
		}
	}
	err = installed.Until(ctx, patience, "pods Running", func(context.Context) (string, error) {
		if have := w.count(); have < p.running {
			return fmt.Sprintf("%d of %d", have, p.running), nil
		}
		return "", nil
	})
	return w.since(began), err
}

// watcher notes when it heard of what was waited for, of objects whose names begin so.
type watcher struct {
	prefix         string
	mu             sync.Mutex // protects the maps
	bound, running map[string]time.Time
}

// start returns when everything of the namespace is watched.
func (w *watcher) start(ctx context.Context, b *bed, namespace string) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactoryWithOptions(b.Client(), 0, informers.WithNamespace(namespace))
	for _, informer := range []cache.SharedIndexInformer{factory.Core().V1().Pods().Informer(), factory.Core().V1().PersistentVolumeClaims().Informer()} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: w.note, UpdateFunc: func(_, object any) { w.note(object) },
		}); err != nil {
			cancel()
			return nil, err
		}
	}
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			cancel()
			return nil, fmt.Errorf("%v cannot be watched", kind)
		}
	}
	return func() { cancel(); factory.Shutdown() }, nil
}

func (w *watcher) note(object any) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch o := object.(type) {
	case *corev1.PersistentVolumeClaim:
		if _, noted := w.bound[o.Name]; !noted && o.Status.Phase == corev1.ClaimBound && strings.HasPrefix(o.Name, w.prefix) {
			w.bound[o.Name] = now
		}
	case *corev1.Pod:
		if _, noted := w.running[o.Name]; !noted && o.Status.Phase == corev1.PodRunning && strings.HasPrefix(o.Name, w.prefix) {
			w.running[o.Name] = now
		}
	}
}

func (w *watcher) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.running)
}

func (w *watcher) since(began time.Time) (t times) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, at := range w.bound {
		t.bound = append(t.bound, at.Sub(began).Seconds())
	}
	for _, at := range w.running {
		t.running = append(t.running, at.Sub(began).Seconds())
	}
	return t
}
