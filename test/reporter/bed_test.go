package reporter

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/capacity/reporter"
	"github.com/csi-local/csi-local/test/testbed"
)

const (
	driver      = "local.example"
	otherDriver = "other.example"
	// agent begins the user agents of reporters; the audit log shows it.
	agent = "csi-local-reporter"
	gib   = int64(1) << 30
)

// source is a node's pools as the test wants them.
type source struct {
	mu    sync.Mutex
	pools map[string]int64
	slots int64
}

func (s *source) PoolReadings(context.Context) []capacity.PoolReading {
	s.mu.Lock()
	defer s.mu.Unlock()
	var readings []capacity.PoolReading
	for _, pool := range slices.Sorted(maps.Keys(s.pools)) {
		readings = append(readings, capacity.PoolReading{Pool: pool, AllocatableBytes: s.pools[pool], ExtentSizeBytes: 4 << 20})
	}
	return readings
}

func (s *source) RefreshPools(context.Context) error { return nil }

func (s *source) MaxVolumesPerNode() (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slots, nil
}

func (s *source) set(pools map[string]int64, slots int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools, s.slots = pools, slots
}

// quick are settings with which a test need not wait for minutes.
func quick() reporter.Settings {
	s := reporter.DefaultSettings()
	s.Interval, s.Spread, s.UrgentSpread, s.RaiseDelay, s.HoldDown = time.Second, 200*time.Millisecond, 50*time.Millisecond, 0, 0
	s.StepPercent, s.StepInterval, s.Resync = 100, time.Second, time.Second
	s.BackoffBase, s.BackoffMax, s.RequestTimeout = 50*time.Millisecond, time.Second, 5*time.Second
	return s
}

// bed is a cluster with nodes whose driver is registered.
type bed struct {
	t       *testing.T
	cluster *testbed.Cluster
	admin   *kubernetes.Clientset
	nodes   []string
	// asked counts the requests that reporters have sent, answered or not.
	asked atomic.Int64
}

// counted is a transport that counts.
type counted struct {
	asked *atomic.Int64
	inner http.RoundTripper
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.asked.Add(1)
	return c.inner.RoundTrip(r)
}

func newBed(t *testing.T, count int) *bed {
	t.Helper()
	b := &bed{t: t, cluster: testbed.New(t, testbed.Options{})}
	b.admin = b.client(b.cluster.Admin(), "admin")
	for i := range count {
		name := fmt.Sprintf("n%03d", i)
		b.nodes = append(b.nodes, name)
		if _, err := b.admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		csiNode := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: driver, NodeID: name, Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(10))}},
			{Name: otherDriver, NodeID: name, Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(7))}},
		}}}
		if _, err := b.admin.StorageV1().CSINodes().Create(t.Context(), csiNode, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *bed) client(config *rest.Config, userAgent string) *kubernetes.Clientset {
	b.t.Helper()
	config.UserAgent = userAgent
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.t.Fatal(err)
	}
	return client
}

// api is what a reporter of the node talks to the API server with.
func (b *bed) api(node, name string) reporter.Client {
	config := b.cluster.Admin()
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return counted{asked: &b.asked, inner: inner} })
	config.Wrap(reporter.PaceRetries)
	return reporter.Client{Kubernetes: b.client(config, agent+"-"+name), NodeName: node, DriverName: driver}
}

// start runs a reporter until the returned function is called, or the test ends.
// changed tells it of a change of its source.
func (b *bed) start(node, name string, s *source) (changed, stop func()) {
	b.t.Helper()
	api := b.api(node, name)
	changes := make(chan struct{}, 1)
	r, err := reporter.New(reporter.Options{
		DriverName: driver, Version: "v1.2.3", BootID: "boot", Source: s, API: api, Watch: api.Watch, Changes: changes,
		ServerVersion: api.ServerVersion, Settings: quick(), Metrics: reporter.NewMetrics(prometheus.NewRegistry()),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(klog.NewContext(b.t.Context(), klog.Logger{}))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	b.t.Cleanup(stop)
	return func() {
		select {
		case changes <- struct{}{}:
		default:
		}
	}, stop
}

// published waits until the node shows these pools and slots.
func (b *bed) published(node string, within time.Duration, pools string, slots int32) {
	b.t.Helper()
	testbed.Eventually(b.t, within, node, func() string {
		if gotPools, gotSlots := b.shown(node); gotPools != pools || gotSlots != slots {
			return fmt.Sprintf("pools %s, %d slots; want %s, %d", gotPools, gotSlots, pools, slots)
		}
		return ""
	})
}

func (b *bed) shown(node string) (pools string, slots int32) {
	b.t.Helper()
	object, err := b.admin.CoreV1().Nodes().Get(b.t.Context(), node, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	csiNode, err := b.admin.StorageV1().CSINodes().Get(b.t.Context(), node, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return object.Annotations[capacity.PoolsAnnotation(driver)], count(csiNode, driver)
}

// count is the number of volumes in a driver's entry, -1 if there is none.
func count(csiNode *storagev1.CSINode, name string) int32 {
	for _, d := range csiNode.Spec.Drivers {
		if d.Name == name && d.Allocatable != nil && d.Allocatable.Count != nil {
			return *d.Allocatable.Count
		}
	}
	return -1
}

// pass lets real time go by in which nothing should happen.
func (b *bed) pass(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.t.Context().Done():
	}
}
