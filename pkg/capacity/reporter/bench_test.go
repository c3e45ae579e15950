package reporter

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/klog/v2"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// fakeSource is a node's pools, all of them read just now.
type fakeSource struct {
	mu        sync.Mutex
	pools     map[string]int64
	errs      map[string]error
	full      map[string]bool
	volumes   int64
	refreshes int
	hangs     bool // LVM has never answered
}

func (s *fakeSource) PoolReadings(ctx context.Context) []capacity.PoolReading {
	s.mu.Lock()
	hangs := s.hangs
	s.mu.Unlock()
	var err error
	if hangs {
		<-ctx.Done()
		err = ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []capacity.PoolReading
	for _, pool := range slices.Sorted(maps.Keys(s.pools)) {
		out = append(out, capacity.PoolReading{
			Pool: pool, AllocatableBytes: s.pools[pool], ExtentSizeBytes: 4 << 20, Filesystem: "xfs", Err: errors.Join(err, s.errs[pool]), AtWatermark: s.full[pool],
		})
	}
	return out
}

func (s *fakeSource) RefreshPools(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refreshes++
	return nil
}

func (s *fakeSource) MaxVolumesPerNode() (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.volumes < 0 {
		return 0, errors.New("mount table cannot be read")
	}
	return s.volumes, nil
}

func (s *fakeSource) set(change func(*fakeSource)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// bench is a running reporter with all that it talks to.
type bench struct {
	t        *testing.T
	server   *fakeServer
	source   *fakeSource
	changes  chan struct{}
	registry *prometheus.Registry
	reporter *Reporter
	mu       sync.Mutex
	told     []string
	stop     func()
}

// startBench runs a reporter until the test's bubble ends.
func startBench(t *testing.T, server *fakeServer, change func(*Options)) *bench {
	t.Helper()
	b := &bench{
		t: t, server: server, changes: make(chan struct{}, 1), registry: prometheus.NewRegistry(),
		source: &fakeSource{pools: map[string]int64{"hdd": 2000, "ssd": 1000}, errs: map[string]error{}, full: map[string]bool{}, volumes: 100},
	}
	opts := Options{
		DriverName: testDriver, Version: "v1.2.3", BootID: "boot", Source: b.source, API: server.client(), Watch: server.client().Watch,
		Changes: b.changes, Settings: DefaultSettings(), Metrics: NewMetrics(b.registry), Notify: b.notify,
	}
	if change != nil {
		change(&opts)
	}
	r, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	b.reporter = r
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Run(ctx)
	}()
	b.stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(b.stop)
	return b
}

func (b *bench) notify(n Notice) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told = append(b.told, n.Reason)
}

func (b *bench) notices() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.told, " ")
}

// lvm is a change that LVM tells of.
func (b *bench) lvm(change func(*fakeSource)) {
	b.source.set(change)
	select {
	case b.changes <- struct{}{}:
	default:
	}
}

func (b *bench) want(when, pools string) {
	b.t.Helper()
	if diff := cmp.Diff(pools, b.server.pools()); diff != "" {
		b.t.Errorf("%s (-want +got)\n%s", when, diff)
	}
}

func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// setEntry adds the driver's entry of the CSINode, or removes it for count < 0.
func (s *fakeServer) setEntry(count int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setEntryLocked(count)
}

func (s *fakeServer) setEntryLocked(count int32) {
	s.changeCSINode(func(n *storagev1.CSINode) {
		n.Spec.Drivers = slices.DeleteFunc(n.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == testDriver })
		if count >= 0 {
			n.Spec.Drivers = append(n.Spec.Drivers, storagev1.CSINodeDriver{
				Name: testDriver, NodeID: testNode, Allocatable: &storagev1.VolumeNodeResources{Count: new(count)},
			})
		}
	})
}
