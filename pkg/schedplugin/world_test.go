package schedplugin

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
)

// A world is an API server, the scheduler's caches of it, which lag each at its
// own pace, and whoever acts on it: the scheduler with this plugin and a model
// of VolumeBinding, provisioners with disks, controllers, users.
//
// Each stream (Nodes, claims, ...) is a sequence of changes that reaches the
// cache in order and late. Once it is in the cache, three consumers are told:
// the ledger, at any time, in any order and repeatedly; VolumeBinding, in order;
// the scheduling queue (hints), in order. None waits for another.

// failer is a testing.T or a rapid.T.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

type stream int

const (
	streamNodes stream = iota
	streamCSINodes
	streamVolumes
	streamClaims
	streamPods
	streamClasses
	streams
)

type change struct {
	key    string
	object metav1.Object // nil: deleted
}

type notice struct {
	stream        stream
	key           string
	before, after metav1.Object
}

type world struct {
	t       failer
	random  *rand.Rand
	version int

	truth   [streams]map[string]metav1.Object
	pending [streams][]change
	caches  [streams]cache.Indexer
	// What each consumer was not told yet.
	forLedger           []notice
	forBinder, forQueue [streams][]notice

	plugin *LocalCapacity
	ledger *Ledger

	// The scheduler's memory.
	binder   *binder
	active   map[types.UID]bool
	waiting  map[types.UID]rejection
	bindings map[types.UID]*binding
	open     []Unsettled

	disks   map[string]map[string]*disk // node, pool
	made    map[types.UID]*diskVolume   // by claim
	created int
	steps   int
	// stats for the test's own sanity: what did happen.
	happened map[string]int
}

// rejection says which plugins refused a waiting pod.
type rejection struct{ byUs, byBinder bool }

func keyOf(o metav1.Object) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

func newWorld(t failer, seed uint64) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 1)),
		active: map[types.UID]bool{}, waiting: map[types.UID]rejection{}, bindings: map[types.UID]*binding{},
		disks: map[string]map[string]*disk{}, made: map[types.UID]*diskVolume{}, happened: map[string]int{}}
	for s := range streams {
		w.truth[s] = map[string]metav1.Object{}
		w.caches[s] = newIndexer()
	}
	w.start()
	return w
}

func newIndexer() cache.Indexer {
	return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

func (w *world) cachesFor() Caches {
	return Caches{
		Nodes: corelisters.NewNodeLister(w.caches[streamNodes]), Volumes: corelisters.NewPersistentVolumeLister(w.caches[streamVolumes]),
		Claims: corelisters.NewPersistentVolumeClaimLister(w.caches[streamClaims]), Pods: corelisters.NewPodLister(w.caches[streamPods]),
		Classes: storagelisters.NewStorageClassLister(w.caches[streamClasses]), CSINodes: storagelisters.NewCSINodeLister(w.caches[streamCSINodes]),
	}
}

// testPlugin is a plugin over the caches, whose books are said to be complete.
func testPlugin(caches Caches, drivers ...string) *LocalCapacity {
	handle := &fakeHandle{recorder: &events.FakeRecorder{}}
	set := &shared{drivers: map[string]*driverBooks{}, settle: func(*Ledger, Unsettled) {}, released: make(chan struct{}, 1)}
	set.waiting = newWaiting(handle, caches.Pods, time.Now)
	set.metrics = newCollector(set)
	p := &LocalCapacity{shared: set, handle: handle, strategy: Spread}
	for _, driver := range drivers {
		b := &driverBooks{}
		b.ledger = NewLedger(LedgerOptions{Driver: driver, Caches: caches, Unsettled: func(u Unsettled) { set.settle(b.ledger, u) }, Released: set.release})
		b.synced.Store(true)
		set.drivers[driver] = b
		p.drivers = append(p.drivers, b)
	}
	return p
}

// start starts the scheduler anew, on fresh caches; whatever was in its memory is gone.
func (w *world) start() {
	for s := range streams {
		w.pending[s], w.forBinder[s], w.forQueue[s] = nil, nil, nil
		w.caches[s] = newIndexer()
		for _, o := range w.truth[s] {
			must(w.t, w.caches[s].Add(o))
		}
	}
	w.forLedger, w.open = nil, nil
	w.plugin = testPlugin(w.cachesFor(), testDriver)
	w.ledger = w.plugin.drivers[0].ledger
	w.plugin.shared.settle = func(_ *Ledger, u Unsettled) { w.open = append(w.open, u) }
	w.binder = newBinder(w)
	w.bindings, w.waiting, w.active = map[types.UID]*binding{}, map[types.UID]rejection{}, map[types.UID]bool{}
	w.syncAll(w.ledger)
	for _, o := range w.truth[streamPods] {
		if pod := o.(*v1.Pod); pod.Spec.NodeName == "" {
			w.active[pod.UID] = true
		}
	}
}

// syncAll has a ledger look at everything there is, in any order.
func (w *world) syncAll(l *Ledger) {
	var all []notice
	for s := range streams {
		for _, key := range w.caches[s].ListKeys() {
			all = append(all, notice{stream: s, key: key})
		}
	}
	slices.SortFunc(all, func(a, b notice) int {
		if a.stream != b.stream {
			return int(a.stream - b.stream)
		}
		return strings.Compare(a.key, b.key)
	})
	w.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, n := range all {
		w.sync(l, n)
	}
}

func (w *world) sync(l *Ledger, n notice) {
	namespace, name, err := cache.SplitMetaNamespaceKey(n.key)
	must(w.t, err)
	switch n.stream {
	case streamNodes, streamCSINodes:
		err = l.SyncNode(name)
	case streamVolumes:
		err = l.SyncVolume(name)
	case streamClaims:
		err = l.SyncClaim(namespace, name)
	case streamPods:
		err = l.SyncPod(namespace, name)
	case streamClasses:
		err = l.SyncClass(name)
	}
	must(w.t, err)
}

func must(t failer, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put writes an object to the API. A version that is not the latest is a
// conflict, as the API has it; an empty one is none.
func (w *world) put(s stream, o metav1.Object) error {
	if now, ok := w.truth[s][keyOf(o)]; ok && o.GetResourceVersion() != "" && o.GetResourceVersion() != now.GetResourceVersion() {
		return fmt.Errorf("conflict on %s", keyOf(o))
	}
	w.version++
	o.SetResourceVersion(strconv.Itoa(w.version))
	w.truth[s][keyOf(o)] = o
	w.pending[s] = append(w.pending[s], change{keyOf(o), o})
	return nil
}

// update is put for an object that has to be there.
func (w *world) update(s stream, o metav1.Object) error {
	if _, ok := w.truth[s][keyOf(o)]; !ok {
		return fmt.Errorf("%s is not found", keyOf(o))
	}
	return w.put(s, o)
}

func (w *world) remove(s stream, key string) {
	delete(w.truth[s], key)
	w.pending[s] = append(w.pending[s], change{key: key})
}

// advance lets the cache of a stream see the next change.
func (w *world) advance(s stream) bool {
	if len(w.pending[s]) == 0 {
		return false
	}
	c := w.pending[s][0]
	w.pending[s] = w.pending[s][1:]
	n := notice{stream: s, key: c.key, after: c.object}
	if before, ok, err := w.caches[s].GetByKey(c.key); err == nil && ok {
		n.before = before.(metav1.Object)
	}
	if c.object == nil {
		if n.before == nil {
			return true
		}
		must(w.t, w.caches[s].Delete(n.before))
	} else {
		must(w.t, w.caches[s].Add(c.object))
	}
	w.forLedger = append(w.forLedger, n)
	w.forBinder[s] = append(w.forBinder[s], n)
	if claim, ok := n.after.(*v1.PersistentVolumeClaim); s == streamVolumes || ok && claim.Spec.VolumeName != "" {
		// A window: for as long as VolumeBinding has not seen a volume that is on
		// offer, it has a new one made instead, on a node that may be full; and
		// while it has not seen a claim bound, it takes offers for it.
		for w.tellBinder(s) {
		}
	}
	w.forQueue[s] = append(w.forQueue[s], n)
	return true
}

// relist lets a cache miss what happened in between, and see how things stand.
func (w *world) relist(s stream) {
	w.pending[s] = nil
	keys := map[string]bool{}
	for _, key := range w.caches[s].ListKeys() {
		keys[key] = true
	}
	for key := range w.truth[s] {
		keys[key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		w.pending[s] = append(w.pending[s], change{key, w.truth[s][key]})
	}
	for w.advance(s) {
	}
}

// tellLedger delivers one of the ledger's notices, any of them; some twice.
func (w *world) tellLedger() bool {
	if len(w.forLedger) == 0 {
		return false
	}
	i := w.random.IntN(len(w.forLedger))
	w.sync(w.ledger, w.forLedger[i])
	if w.random.IntN(8) > 0 {
		w.forLedger = slices.Delete(w.forLedger, i, i+1)
	}
	return true
}

func (w *world) tellBinder(s stream) bool {
	if len(w.forBinder[s]) == 0 {
		return false
	}
	w.binder.tell(w.forBinder[s][0])
	w.forBinder[s] = w.forBinder[s][1:]
	return true
}

func (w *world) tellQueue(s stream) bool {
	if len(w.forQueue[s]) == 0 {
		return false
	}
	n := w.forQueue[s][0]
	w.forQueue[s] = w.forQueue[s][1:]
	w.hint(n)
	return true
}

// pickString picks a key of the map, the same one in every run.
func pickString[K ~string, V any](w *world, m map[K]V) (k K, ok bool) {
	if len(m) == 0 {
		return k, false
	}
	keys := slices.Sorted(maps.Keys(m))
	return keys[w.random.IntN(len(keys))], true
}

func (w *world) claim(key string) *v1.PersistentVolumeClaim {
	if o, ok := w.truth[streamClaims][key]; ok {
		return o.(*v1.PersistentVolumeClaim)
	}
	return nil
}

func (w *world) class(name string) *storagev1.StorageClass {
	if o, ok := w.truth[streamClasses][name]; ok {
		return o.(*storagev1.StorageClass)
	}
	return nil
}

func (w *world) podByUID(uid types.UID) *v1.Pod {
	for _, o := range w.truth[streamPods] {
		if o.GetUID() == uid {
			return o.(*v1.Pod)
		}
	}
	return nil
}
