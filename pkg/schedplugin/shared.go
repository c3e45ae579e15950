package schedplugin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
)

// shared is what all profiles of one scheduler have in common.
type shared struct {
	informers informers.SharedInformerFactory
	// mu protects drivers, which grows while profiles are made.
	mu      sync.Mutex
	drivers map[string]*driverBooks
	waiting *waiting
	metrics *collector
	// settle has the API asked what became of a claim; the answer goes to the ledger.
	settle func(*Ledger, Unsettled)
	// released takes one word that bytes were freed which no event tells of.
	released chan struct{}
}

// driverBooks are a driver's ledger and the way its informers feed it.
type driverBooks struct {
	ledger *Ledger
	ratios map[string]float64
	// feeds are the ledger's handlers at the informers.
	feeds []cache.ResourceEventHandlerRegistration
	// synced is set once all of them have seen what there was at the start.
	synced atomic.Bool
	// rebuildNanos is how long that took.
	rebuildNanos atomic.Int64
	// hinted keeps a hint from syncing the same event for every pod.
	hinted lastObject
}

func newShared(ctx context.Context, handle framework.Handle) (*shared, error) {
	factory := handle.SharedInformerFactory()
	s := &shared{informers: factory, drivers: map[string]*driverBooks{}, released: make(chan struct{}, 1)}
	s.waiting = newWaiting(handle, factory.Core().V1().Pods().Lister(), time.Now)
	s.metrics = newCollector(s)
	if err := s.metrics.register(); err != nil {
		// Another scheduler in this process (a test) has registered before.
		klog.FromContext(ctx).V(2).Info("Metrics are not exported", "plugin", Name, "err", err)
	}
	settler := newSettler(handle.ClientSet(), s.waiting)
	s.settle = settler.add
	go settler.run(ctx)
	go s.wakeReleased(ctx)
	return s, nil
}

// wakeReleased wakes pods when a ledger says so, which it does under its lock.
func (s *shared) wakeReleased(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.released:
			s.waiting.wake(klog.FromContext(ctx))
		}
	}
}

func (s *shared) release() {
	select {
	case s.released <- struct{}{}:
	default: // said already
	}
}

// join returns the driver's books, which all profiles share; so they must agree
// on the ratios.
func (s *shared) join(ctx context.Context, driver string, ratios map[string]float64) (*driverBooks, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.drivers[driver]; ok {
		if !sameRatios(b.ratios, ratios) {
			return nil, fmt.Errorf("driver %s: oversellRatio differs from another profile's; the pools are the same", driver)
		}
		return b, nil
	}
	b := &driverBooks{ratios: ratios}
	b.ledger = NewLedger(LedgerOptions{
		Driver: driver,
		Caches: cachesOf(s.informers),
		Ratio: func(pool string) float64 {
			if ratio, ok := ratios[pool]; ok {
				return ratio
			}
			return ratios[""]
		},
		Unsettled: func(u Unsettled) { s.settle(b.ledger, u) },
		Released:  s.release,
	})
	if err := b.feed(ctx, s.informers, s.waiting); err != nil {
		return nil, fmt.Errorf("driver %s: %w", driver, err)
	}
	s.drivers[driver] = b
	go s.awaitSync(ctx, b, time.Now())
	return b, nil
}

// list returns the drivers' books, in any order.
func (s *shared) list() []*driverBooks {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.drivers))
}

func cachesOf(f informers.SharedInformerFactory) Caches {
	core, storage := f.Core().V1(), f.Storage().V1()
	return Caches{
		Nodes: core.Nodes().Lister(), Volumes: core.PersistentVolumes().Lister(), Claims: core.PersistentVolumeClaims().Lister(),
		Pods: core.Pods().Lister(), Classes: storage.StorageClasses().Lister(), CSINodes: storage.CSINodes().Lister(),
	}
}

// awaitSync wakes the pods that came before the books were complete.
func (s *shared) awaitSync(ctx context.Context, b *driverBooks, start time.Time) {
	for _, feed := range b.feeds {
		select {
		case <-feed.HasSyncedChecker().Done():
		case <-ctx.Done():
			return
		}
	}
	b.synced.Store(true)
	b.rebuildNanos.Store(int64(time.Since(start)))
	klog.FromContext(ctx).V(2).Info("Local volumes are known", "plugin", Name, "driver", b.ledger.driver, "duration", time.Since(start))
	s.waiting.wake(klog.FromContext(ctx))
}

// checkSynced tells whether the books are complete.
func (b *driverBooks) checkSynced() bool {
	if b.synced.Load() {
		return true
	}
	for _, feed := range b.feeds {
		if !feed.HasSynced() {
			return false
		}
	}
	b.synced.Store(true)
	return true
}
