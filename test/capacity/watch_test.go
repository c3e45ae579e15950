package capacity

import (
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/test/nodeproc"
)

// sight is what a watch saw, and when.
type sight[T any] struct {
	at    time.Time
	value T
}

func (s sight[T]) String() string { return fmt.Sprint(s.value, " at ", s.at.Format("15:04:05.000")) }

// history is what a watch has seen until now. Its methods may be called from any goroutine.
type history[T any] struct {
	mu     sync.Mutex
	sights []sight[T]
	news   chan struct{} // has a value in it after each sight
}

func (h *history[T]) add(value T) {
	h.mu.Lock()
	h.sights = append(h.sights, sight[T]{time.Now(), value})
	h.mu.Unlock()
	select {
	case h.news <- struct{}{}:
	default:
	}
}

func (h *history[T]) all() []sight[T] {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]sight[T](nil), h.sights...)
}

// record notes each value that a watch shows, until the test ends.
func record[T any](t *testing.T, w watch.Interface, value func(object any) (T, bool)) *history[T] {
	t.Helper()
	h := &history[T]{news: make(chan struct{}, 1)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event := range w.ResultChan() {
			if v, ok := value(event.Object); ok && event.Type != watch.Deleted {
				h.add(v)
			}
		}
	}()
	t.Cleanup(func() {
		w.Stop()
		<-ended
	})
	return h
}

var onlyThisNode = metav1.ListOptions{FieldSelector: "metadata.name=" + nodeproc.NodeName}

// watchPools records the pools' figures on the Node.
func (b *bed) watchPools() *history[map[string]int64] {
	b.t.Helper()
	w, err := b.Admin.CoreV1().Nodes().Watch(b.t.Context(), onlyThisNode)
	if err != nil {
		b.t.Fatal(err)
	}
	return record(b.t, w, func(object any) (map[string]int64, bool) {
		node, ok := object.(*corev1.Node)
		if !ok {
			return nil, false
		}
		pools, _, err := capacity.DecodePools(node.Annotations[capacity.PoolsAnnotation(driverName)])
		return pools, err == nil
	})
}

// watchSlots records the driver's count on the CSINode, as kubectl get csinode -w shows it.
func (b *bed) watchSlots() *history[int32] {
	b.t.Helper()
	w, err := b.Admin.StorageV1().CSINodes().Watch(b.t.Context(), onlyThisNode)
	if err != nil {
		b.t.Fatal(err)
	}
	return record(b.t, w, func(object any) (int32, bool) {
		csiNode, ok := object.(*storagev1.CSINode)
		if !ok || len(csiNode.Spec.Drivers) == 0 || csiNode.Spec.Drivers[0].Allocatable == nil {
			return 0, false
		}
		return *csiNode.Spec.Drivers[0].Allocatable.Count, true
	})
}

// awaitPools waits until the pools' figures are the wanted ones, and returns since when.
func awaitPools(t *testing.T, h *history[map[string]int64], what string, within time.Duration, want map[string]int64) time.Time {
	t.Helper()
	return await(t, h, what, within, want, maps.Equal[map[string]int64, map[string]int64])
}

// await waits until the last sight is the wanted one, and returns when that came.
func await[T any](t *testing.T, h *history[T], what string, within time.Duration, want T, equal func(T, T) bool) time.Time {
	t.Helper()
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	for {
		all := h.all()
		if n := len(all); n > 0 && equal(all[n-1].value, want) {
			return all[n-1].at
		}
		select {
		case <-timeout.C:
			t.Fatalf("%s: not within %v: seen %v, want %v", what, within, all, want)
		case <-h.news:
		}
	}
}
