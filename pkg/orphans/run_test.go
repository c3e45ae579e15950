package orphans

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"
)

// lockedNode and lockedAPI let several goroutines use the fakes.
type lockedNode struct {
	mu   *sync.Mutex
	node *fakeNode
}

func (l lockedNode) OrphanCandidates(ctx context.Context) ([]Volume, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.node.OrphanCandidates(ctx)
}

func (l lockedNode) MarkVolume(ctx context.Context, v Volume, seen bool, orphan time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.node.MarkVolume(ctx, v, seen, orphan)
}

func (l lockedNode) DeleteOrphan(ctx context.Context, v Volume, confirm func(context.Context) error) error {
	if err := confirm(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.node.DeleteOrphan(ctx, v, func(context.Context) error { return nil })
}

type lockedAPI struct {
	mu  *sync.Mutex
	api *fakeAPI
}

func (l lockedAPI) PersistentVolume(ctx context.Context, name string, cached bool) (Answer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.api.PersistentVolume(ctx, name, cached)
}

func (l lockedAPI) NodeUID(ctx context.Context) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.api.NodeUID(ctx)
}

// The whole keeper on the clock of a bubble, with operators who ask all the time.
func TestRun_WithOperators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		node := &fakeNode{volumes: map[string]Volume{}}
		for _, name := range []string{"pvc-1", "pvc-2", "pvc-3"} {
			node.volumes[name] = Volume{ID: "vg/" + name, Name: name, UUID: name, Pool: "ssd", PoolBytes: 16}
		}
		api := &fakeAPI{now: func() time.Duration { return time.Since(start) }, volumes: map[string]Answer{}, uid: "u1"}
		api.volumes["pvc-3"] = Answer{Found: true, Driver: testDriver, Handle: "vg/pvc-3"}
		k, err := New(Options{
			DriverName: testDriver, NodeName: "n1", Node: lockedNode{&mu, node}, API: lockedAPI{&mu, api},
			Settings: DefaultSettings(), Metrics: NewMetrics(prometheus.NewRegistry()),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		var running sync.WaitGroup
		running.Go(func() { k.Run(ctx) })
		time.Sleep(2 * time.Minute)
		entries, err := k.List(ctx)
		if err != nil || len(entries) != 2 || entries[0].VolumeID != "vg/pvc-1" || entries[0].Kind != Leaked || !entries[0].Since.After(start) {
			t.Errorf("%+v, %v", entries, err)
		}
		running.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(100 * time.Millisecond)
				if _, err := k.List(ctx); err != nil {
					t.Error(err)
				}
				if _, err := k.Delete(ctx, "pvc-3"); !errors.Is(err, ErrNotOrphan) {
					t.Error(err)
				}
			}
		})
		time.Sleep(10 * time.Minute)
		if _, err := k.Delete(ctx, "pvc-2"); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Hour)
		cancel()
		running.Wait()
		if len(node.volumes) != 1 || node.volumes["pvc-3"].IsOrphan() {
			t.Errorf("left: %+v", node.volumes)
		}
	})
}

func TestNew_NamesEachProblem(t *testing.T) {
	_, err := New(Options{Settings: Settings{Policy: "shred"}})
	for _, part := range []string{"DriverName", "NodeName", "Node is nil", "API", "Metrics", "FirstLook", "Grace", "shred", "BackoffBase"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not name %s", err, part)
		}
	}
}
