package schedplugin

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/kube-scheduler/framework"
)

// started makes a plugin through the factory, on informers of a fake API.
func started(t *testing.T, args runtime.Object, objects ...metav1.Object) (*LocalCapacity, *fakeHandle) {
	t.Helper()
	handle := newHandle(objects...)
	p := profile(t, NewFactory(), handle, args)
	handle.factory.Start(t.Context().Done())
	handle.factory.WaitForCacheSync(t.Context().Done())
	for _, b := range p.drivers {
		for _, feed := range b.feeds {
			<-feed.HasSyncedChecker().Done()
		}
	}
	return p, handle
}

func newHandle(objects ...metav1.Object) *fakeHandle {
	var all []runtime.Object
	for _, o := range objects {
		all = append(all, bare(o).(runtime.Object))
	}
	client := fake.NewClientset(all...)
	return &fakeHandle{client: client, factory: informers.NewSharedInformerFactory(client, 0), recorder: events.NewFakeRecorder(100)}
}

func profile(t *testing.T, factory Factory, handle *fakeHandle, args runtime.Object) *LocalCapacity {
	t.Helper()
	p, err := factory(t.Context(), args, handle)
	if err != nil {
		t.Fatal(err)
	}
	return p.(*LocalCapacity)
}

func TestFactory_BuildsTheBooksFromTheAPI(t *testing.T) {
	a := makeClaim("a", "ssd", 6*gib).selected("n1")
	p, _ := started(t, nil, baseObjects(a, makePod("i").inline("pool-ssd", gib).on("n1"), makeVolume("v", "pool-ssd", "n2", gib))...)
	l := p.drivers[0].ledger
	if got := l.Pool("n1", "pool-ssd").UsedBytes; got != 7*gib {
		t.Errorf("n1: used %d", got)
	}
	if got := l.Pool("n2", "pool-ssd").UsedBytes; got != gib {
		t.Errorf("n2: used %d", got)
	}
	if !p.drivers[0].checkSynced() {
		t.Error("not synced")
	}
}

func TestFactory_ProfilesShareTheBooks(t *testing.T) {
	factory, handle := NewFactory(), newHandle(baseObjects(makeClaim("a", "ssd", 10*gib), makeClaim("b", "ssd", 10*gib))...)
	one := profile(t, factory, handle, nil)
	two := profile(t, factory, handle, &LocalCapacityArgs{ScoringStrategy: &ScoringStrategy{Type: Pack}})
	if one.drivers[0] != two.drivers[0] || one.strategy == two.strategy {
		t.Error("profiles should share the books, and nothing else")
	}
	ratio := 2.0
	if _, err := factory(t.Context(), &LocalCapacityArgs{OversellRatio: &ratio}, handle); err == nil {
		t.Error("profiles that disagree on the ratio were accepted")
	}
	handle.factory.Start(t.Context().Done())
	handle.factory.WaitForCacheSync(t.Context().Done())
	for _, feed := range one.drivers[0].feeds {
		<-feed.HasSyncedChecker().Done()
	}
	ctx, info := context.Background(), nodeInfo(ssdNode("n1"))
	state, _, _ := filterAll(ctx, one, makePod("p").claiming("a").Pod, info)
	if status := one.Reserve(ctx, state, makePod("p").Pod, "n1"); !status.IsSuccess() {
		t.Fatal(status)
	}
	_, statuses, _ := filterAll(ctx, two, makePod("q").claiming("b").Pod, info)
	if statuses["n1"].IsSuccess() {
		t.Error("the second profile promises what the first has reserved")
	}
}

func TestFactory_WakesPodsThatCameBeforeTheBooksWereComplete(t *testing.T) {
	pod := makePod("p").claiming("a")
	factory, handle := NewFactory(), newHandle(baseObjects(makeClaim("a", "ssd", gib), pod)...)
	handle.woken = make(chan struct{})
	woken := handle.woken
	p := profile(t, factory, handle, nil)
	if _, status := p.PreFilter(context.Background(), newState(), pod.Pod, nil); status.Code() != framework.Unschedulable {
		t.Fatalf("PreFilter: %v", status)
	}
	handle.factory.Start(t.Context().Done())
	select {
	case <-woken:
	case <-time.After(time.Minute):
		t.Fatal("nobody was woken")
	}
	handle.mu.Lock()
	defer handle.mu.Unlock()
	if _, ok := handle.activated[string(pod.UID)]; !ok {
		t.Errorf("woken: %v", handle.activated)
	}
}

// koordinator-sh/koordinator#2910: deletions that were missed arrive as
// tombstones, with a stale object or none.
func TestFeed_Tombstones(t *testing.T) {
	a := makeClaim("a", "ssd", 6*gib)
	inline := makePod("i").inline("pool-ssd", gib).on("n1")
	volume := makeVolume("v", "pool-ssd", "n1", gib)
	for _, tc := range []struct {
		name     string
		object   metav1.Object
		informer func(f *fixture) cache.ResourceEventHandler
		node     string
	}{
		{"claim", a.selected("n1"), func(f *fixture) cache.ResourceEventHandler { return byName(f.t.Context(), f.ledger.SyncClaim) }, "n1"},
		{"volume", volume, func(f *fixture) cache.ResourceEventHandler {
			return byName(f.t.Context(), func(_, name string) error { return f.ledger.SyncVolume(name) })
		}, "n1"},
		{"pod", inline, func(f *fixture) cache.ResourceEventHandler {
			return podHandler{byName(f.t.Context(), f.ledger.SyncPod), testDriver, f.plugin.shared.waiting}
		}, "n1"},
	} {
		for how, tombstone := range map[string]func(o metav1.Object) any{
			"the object itself":    func(o metav1.Object) any { return o },
			"stale object":         func(o metav1.Object) any { return cache.DeletedFinalStateUnknown{Key: keyOf(o), Obj: o} },
			"no object":            func(o metav1.Object) any { return cache.DeletedFinalStateUnknown{Key: keyOf(o)} },
			"object of wrong type": func(o metav1.Object) any { return cache.DeletedFinalStateUnknown{Key: keyOf(o), Obj: &v1.Secret{}} },
		} {
			t.Run(tc.name+", "+how, func(t *testing.T) {
				f := newFixture(t, baseObjects(tc.object)...)
				handler, object := tc.informer(f), bare(tc.object)
				if f.used("n1", "pool-ssd") == 0 {
					t.Fatal("nothing charged to begin with")
				}
				must(t, f.caches[streamOf(t, object)].Delete(object))
				handler.OnDelete(nil)
				handler.OnDelete("nonsense")
				handler.OnAdd(&v1.Secret{}, false)
				handler.OnDelete(tombstone(object))
				for _, u := range f.open {
					if _, err := f.ledger.Settle(u); err != nil {
						t.Fatal(err)
					}
				}
				f.wantUsed("deleted", "n1", "pool-ssd", 0)
				if n := len(f.ledger.entries); n != 0 {
					t.Errorf("%d entries are left", n)
				}
			})
		}
	}
}

func TestFeed_TombstonesOfNodesClassesAndCSINodes(t *testing.T) {
	node := func(l *Ledger) func(_, name string) error {
		return func(_, name string) error { return l.SyncNode(name) }
	}
	class := func(l *Ledger) func(_, name string) error {
		return func(_, name string) error { return l.SyncClass(name) }
	}
	for name, tc := range map[string]struct {
		object metav1.Object
		sync   func(*Ledger) func(namespace, name string) error
	}{
		"Node": {ssdNode("n1"), node}, "CSINode": {makeCSINode("n1"), node}, "StorageClass": {makeClass("ssd", "pool-ssd"), class},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, baseObjects(makeClaim("c", "ssd", gib))...)
			gone := nodeInfo(ssdNode("n1")) // the scheduler's own view is older
			must(t, f.caches[streamOf(t, tc.object)].Delete(tc.object))
			handler := byName(t.Context(), tc.sync(f.ledger))
			handler.OnDelete(nil)
			handler.OnDelete(cache.DeletedFinalStateUnknown{Key: keyOf(tc.object)})
			_, statuses, refused := filterAll(t.Context(), f.plugin, makePod("p").claiming("c").Pod, gone)
			if refused.IsSuccess() && statuses["n1"].IsSuccess() {
				t.Error("accepted")
			}
		})
	}
}

func TestFeed_FollowsNodesClassesAndCSINodes(t *testing.T) {
	f := newFixture(t, baseObjects(makeClaim("c", "ssd", gib))...)
	pod := makePod("p").claiming("c")
	if !f.accepted(pod)["n1"] {
		t.Fatal("n1 should do")
	}
	f.remove(makeCSINode("n1"))
	if f.accepted(pod)["n1"] {
		t.Error("the driver is not registered any more")
	}
	f.put(makeCSINode("n1"), makeNode("n1"))
	if f.accepted(pod)["n1"] {
		t.Error("nothing is published any more")
	}
	f.put(ssdNode("n1"))
	f.remove(makeClass("ssd", "pool-ssd"))
	if _, _, refused := f.filter(pod); !refused.IsRejected() {
		t.Error("the class is gone")
	}
}
