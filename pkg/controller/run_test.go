package controller

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/klog/v2"
)

// counter is a recorder that may be called from everywhere.
type counter struct{ events atomic.Int64 }

func (c *counter) Event(runtime.Object, string, string, string) { c.events.Add(1) }

// All workers at once on what client-go's fakes can do, for the race detector.
// What they cannot do (conditions, finalizers) is for the real API server.
func TestRun(t *testing.T) {
	const volumes = 40
	objects := []runtime.Object{makeClass(PolicyDeleteClaim)}
	for i := range volumes {
		v := makeVolume(fmt.Sprintf("v%d", i), fmt.Sprintf("n%d", i%2))
		v.Status.Phase, v.UID, v.ResourceVersion = v1.VolumeReleased, types.UID(v.Name), "1"
		objects = append(objects, v, withNode(makeClaim(fmt.Sprintf("c%d", i)), "n1"))
	}
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := Client{DriverName: testDriver, Kubernetes: fake.NewClientset(objects...), Metadata: metadatafake.NewSimpleMetadataClient(scheme,
		&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "n1"}})}
	settings := testSettings()
	settings.LostNodeDelay = time.Second
	registry, recorder := prometheus.NewRegistry(), &counter{}
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	synced, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- Run(ctx, client, Options{DriverName: testDriver, Settings: settings, Recorder: recorder, Metrics: NewMetrics(registry)},
			func() { close(synced) })
	}()
	<-synced
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	timeout := time.NewTimer(60 * time.Second)
	defer timeout.Stop()
	for left := -1; left != volumes/2; {
		select {
		case <-timeout.C:
			t.Fatalf("%d volumes are left, want those of n1", left)
		case err := <-ended:
			t.Fatalf("it ended: %v", err)
		case <-tick.C:
		}
		list, err := client.Kubernetes.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		left = len(list.Items)
		if _, err := registry.Gather(); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := recorder.events.Load(); got < volumes/2 {
		t.Errorf("%d events", got)
	}
}

func TestRun_EndsBeforeItIsSynced(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	client := Client{DriverName: testDriver, Kubernetes: fake.NewClientset(), Metadata: metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())}
	err := Run(ctx, client, Options{DriverName: testDriver, Settings: testSettings(), Recorder: &counter{}, Metrics: NewMetrics(prometheus.NewRegistry())},
		func() { t.Error("synced") })
	if err != nil {
		t.Error(err)
	}
}

func receive[T any](t *testing.T, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(30 * time.Second):
		t.Fatal("nothing comes")
	}
	return value
}

// The one that leads works; when its work fails, or the process is to end, the
// other leads.
func TestElection(t *testing.T) {
	client := fake.NewClientset()
	elect := func(name string) Election {
		return Election{Kubernetes: client, Namespace: "ns", Name: LeaseName(testDriver), Identity: name, LeaseDuration: 3 * time.Second}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	working, ended := make(chan string, 2), map[string]chan error{"a": make(chan error, 1), "b": make(chan error, 1)}
	failed, fail := errors.New("failed"), make(chan struct{})
	start := func(name string) {
		go func() {
			ended[name] <- elect(name).Run(ctx, func(ctx context.Context) error {
				working <- name
				select {
				case <-fail:
					return failed
				case <-ctx.Done():
					return nil
				}
			})
		}()
	}
	start("a")
	if got := receive(t, working); got != "a" {
		t.Fatalf("%s works", got)
	}
	start("b")
	fail <- struct{}{}
	if err := receive(t, ended["a"]); !errors.Is(err, failed) {
		t.Errorf("error %v", err)
	}
	if got := receive(t, working); got != "b" {
		t.Errorf("%s works", got)
	}
	stop()
	if err := receive(t, ended["b"]); err != nil {
		t.Errorf("error %v", err)
	}
	lease, err := client.CoordinationV1().Leases("ns").Get(t.Context(), LeaseName(testDriver), metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
		t.Errorf("the lease is not given back: %v, error %v", lease, err)
	}
}

// A process that waits ends when it is told to.
func TestElection_EndsWhileWaiting(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	e := Election{Kubernetes: fake.NewClientset(), Namespace: "ns", Name: "n", Identity: "a", LeaseDuration: 3 * time.Second}
	if err := e.Run(ctx, func(ctx context.Context) error { return ctx.Err() }); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	e.LeaseDuration = 0
	if err := e.Run(t.Context(), nil); err == nil {
		t.Error("a lease of no time is no error")
	}
}
