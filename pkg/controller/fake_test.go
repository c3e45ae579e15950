package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"
)

const (
	testDriver  = "local.example"
	otherDriver = "other.example"
)

// fakeServer is what of an API server matters here: preconditions, finalizers,
// and watches that lag behind. client-go's fake clientset knows no preconditions.
// It is used from one goroutine.
type fakeServer struct {
	version int
	nodes   map[string]*metav1.PartialObjectMetadata
	volumes map[string]*v1.PersistentVolume
	claims  map[string]*v1.PersistentVolumeClaim
	classes map[string]*storagev1.StorageClass

	// lagging are events that the caches have not got yet, in order for each kind.
	lagging map[string][]func()
	// broken, if set, is asked for an error before each request.
	broken func(verb string) error
	// writes are the changes that were made by way of [Writer]; onWrite sees each before it is made.
	writes  []string
	onWrite func(verb string, object metav1.Object)
}

var (
	_ Reader = &world{}
	_ Writer = &world{}
)

func newFakeServer() *fakeServer {
	return &fakeServer{
		nodes: map[string]*metav1.PartialObjectMetadata{}, volumes: map[string]*v1.PersistentVolume{},
		claims: map[string]*v1.PersistentVolumeClaim{}, classes: map[string]*storagev1.StorageClass{}, lagging: map[string][]func(){},
	}
}

func (s *fakeServer) fail(verb string) error {
	if s.broken == nil {
		return nil
	}
	return s.broken(verb)
}

func notFound(kind, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
}

func (s *fakeServer) Volume(_ context.Context, name string) (*v1.PersistentVolume, error) {
	return read(s, "volumes", s.volumes, name)
}

func (s *fakeServer) Claim(_ context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	return read(s, "claims", s.claims, claimKey(namespace, name))
}

func (s *fakeServer) Class(_ context.Context, name string) (*storagev1.StorageClass, error) {
	return read(s, "classes", s.classes, name)
}

func read[T interface{ DeepCopy() T }](s *fakeServer, kind string, objects map[string]T, key string) (none T, err error) {
	if err := s.fail("get " + kind); err != nil {
		return none, err
	}
	object, found := objects[key]
	if !found {
		return none, notFound(kind, key)
	}
	return object.DeepCopy(), nil
}

func (s *fakeServer) NodeGone(_ context.Context, host string) (bool, error) {
	if err := s.fail("get nodes"); err != nil {
		return false, err
	}
	for _, node := range s.nodes {
		if slices.Contains(nodeHosts(testDriver, &node.ObjectMeta), host) {
			return false, nil
		}
	}
	return true, nil
}

// allowed checks the preconditions of a write and notes it.
func (s *fakeServer) allowed(verb string, read, now metav1.Object) error {
	if err := s.fail(verb); err != nil {
		return err
	}
	if read.GetUID() != now.GetUID() || read.GetResourceVersion() != now.GetResourceVersion() {
		return apierrors.NewConflict(schema.GroupResource{Resource: verb}, read.GetName(), fmt.Errorf("it has changed"))
	}
	if s.onWrite != nil {
		s.onWrite(verb, now)
	}
	s.writes = append(s.writes, verb+" "+now.GetName())
	return nil
}

func (w *world) RemoveFinalizer(_ context.Context, v *v1.PersistentVolume) error {
	now := w.volumes[v.Name]
	if now == nil {
		return notFound("volumes", v.Name)
	}
	if err := w.allowed("remove finalizer", v, now); err != nil {
		return err
	}
	w.changeVolume(v.Name, func(v *v1.PersistentVolume) {
		v.Finalizers = slices.DeleteFunc(v.Finalizers, func(f string) bool { return f == provisionerFinalizer })
	})
	return nil
}

func (w *world) DeleteVolume(_ context.Context, v *v1.PersistentVolume) error {
	now := w.volumes[v.Name]
	if now == nil {
		return notFound("volumes", v.Name)
	}
	if err := w.allowed("delete volume", v, now); err != nil {
		return err
	}
	w.changeVolume(v.Name, func(v *v1.PersistentVolume) { v.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} })
	return nil
}

func (w *world) DeleteClaim(_ context.Context, claim *v1.PersistentVolumeClaim) error {
	key := claimKey(claim.Namespace, claim.Name)
	now := w.claims[key]
	if now == nil {
		return notFound("claims", key)
	}
	if err := w.allowed("delete claim", claim, now); err != nil {
		return err
	}
	w.changeClaim(key, func(claim *v1.PersistentVolumeClaim) { claim.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} })
	return nil
}

func (w *world) ClearSelectedNode(_ context.Context, claim *v1.PersistentVolumeClaim) error {
	key := claimKey(claim.Namespace, claim.Name)
	now := w.claims[key]
	if now == nil {
		return notFound("claims", key)
	}
	if err := w.allowed("clear selected node", claim, now); err != nil {
		return err
	}
	w.changeClaim(key, func(claim *v1.PersistentVolumeClaim) { delete(claim.Annotations, storagehelpers.AnnSelectedNode) })
	return nil
}

// world is a fake API server and a controller whose caches follow it.
type world struct {
	*fakeServer
	c     *Controller
	ctx   context.Context //nolint:containedctx // it silences the logs
	clock *clocktesting.FakeClock
	// queued are the keys to look at, and when.
	queuedVolumes, queuedClaims map[string]time.Time
	cachedNodes                 cache.Indexer
	events                      []string
}

func testSettings() Settings {
	s := DefaultSettings()
	s.MaxLostNodesPercent = 100
	return s
}

// errorReporter is what testing.T and rapid.T have in common.
type errorReporter interface {
	Helper()
	Fatal(args ...any)
	Errorf(format string, args ...any)
}

func newWorld(t errorReporter, settings Settings) *world {
	t.Helper()
	w := &world{
		fakeServer: newFakeServer(), ctx: klog.NewContext(context.Background(), klog.Logger{}), clock: clocktesting.NewFakeClock(time.Unix(1_000_000, 0)),
		queuedVolumes: map[string]time.Time{}, queuedClaims: map[string]time.Time{},
	}
	enqueue := func(queue map[string]time.Time) func(string) {
		return func(key string) { queue[key] = w.clock.Now() }
	}
	var err error
	w.c, err = newController(Options{
		DriverName: testDriver, Settings: settings, Recorder: w, Metrics: NewMetrics(prometheus.NewRegistry()), Clock: w.clock,
	}, w, w, enqueue(w.queuedVolumes), enqueue(w.queuedClaims))
	if err != nil {
		t.Fatal(err)
	}
	w.cachedNodes = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	w.c.volumes = cache.NewIndexer(cache.MetaNamespaceKeyFunc, w.c.volumeIndexers())
	w.c.claims = cache.NewIndexer(cache.MetaNamespaceKeyFunc, claimIndexers())
	w.c.classes = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	return w
}

// Event notes reason and object.
func (w *world) Event(object runtime.Object, kind, reason, message string) {
	o, _ := object.(metav1.Object)
	w.events = append(w.events, fmt.Sprintf("%s %s %s: %s", kind, o.GetName(), reason, message))
}

// deliver brings the caches up to date.
func (w *world) deliver() {
	for _, kind := range slices.Sorted(maps.Keys(w.lagging)) {
		for w.deliverOne(kind) {
		}
	}
}

func (w *world) deliverOne(kind string) bool {
	events := w.lagging[kind]
	if len(events) == 0 {
		return false
	}
	w.lagging[kind] = events[1:]
	events[0]()
	return true
}

// settle delivers all, and looks at all that is to be looked at now.
func (w *world) settle(t errorReporter) {
	t.Helper()
	for range 100 {
		w.deliver()
		if !w.look(w.queuedVolumes, w.c.reconcileVolume) && !w.look(w.queuedClaims, w.c.reconcileClaim) {
			return
		}
	}
	t.Fatal("it never comes to rest")
}

// look looks at what is due in a queue, and tells whether anything was.
func (w *world) look(queue map[string]time.Time, reconcile func(context.Context, string) (time.Duration, error)) (any bool) {
	for _, key := range slices.Sorted(maps.Keys(queue)) {
		if !queue[key].After(w.clock.Now()) {
			w.lookAt(queue, key, reconcile)
			any = true
		}
	}
	return any
}

// lookAt does for one key what the real queue's worker does.
func (w *world) lookAt(queue map[string]time.Time, key string, reconcile func(context.Context, string) (time.Duration, error)) {
	delete(queue, key)
	again, err := reconcile(w.ctx, key)
	if err != nil {
		again = retryBase
	}
	if due, queued := queue[key]; again > 0 && (!queued || w.clock.Now().Add(again).Before(due)) {
		queue[key] = w.clock.Now().Add(again)
	}
}

// pass lets time go by, in steps no longer than the shortest wait.
func (w *world) pass(t errorReporter, d time.Duration) {
	t.Helper()
	end := w.clock.Now().Add(d)
	for {
		w.settle(t)
		next := end
		for _, queue := range []map[string]time.Time{w.queuedVolumes, w.queuedClaims} {
			for _, due := range queue {
				if due.Before(next) {
					next = due
				}
			}
		}
		w.clock.SetTime(next)
		if !next.Before(end) {
			w.settle(t)
			return
		}
	}
}

func (s *fakeServer) stamp(object metav1.Object) {
	s.version++
	if object.GetUID() == "" {
		object.SetUID(types.UID("uid-" + strconv.Itoa(s.version)))
	}
	object.SetResourceVersion(strconv.Itoa(s.version))
}
