package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/csi-local/csi-local/bench/result"
	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/schedplugin"
)

const (
	manyNodes   = 5000
	fewVolumes  = 10
	manyVolumes = 500_000
	// rounds is how often the things that are compared are done, one after the other.
	rounds = 200
)

// BenchmarkLedger measures what the plugin costs in a cluster with few volumes
// and in one with very many, in turn, so that whatever else the machine does
// slows both. It is made to run once.
func BenchmarkLedger(b *testing.B) {
	var figures result.Set
	few, many := newFilledCluster(b, fewVolumes), newFilledCluster(b, manyVolumes)
	measureFilter(b, &figures, few, many)
	measureLedger(b, &figures, few, many)
	keep(b, &figures, "scheduler-ledger")
}

// newFilledCluster has so many volumes of 1 GiB, bound to their claims, and two
// claims that are not bound: "small", and "huge", which fits nowhere.
func newFilledCluster(b *testing.B, volumes int) *cluster {
	ctx, cancel := context.WithCancel(context.Background())
	b.Cleanup(cancel)
	c := &cluster{pod: waitingPod("small")}
	objects := []k8sruntime.Object{class("local-a"), class("local-b")}
	for i := range manyNodes {
		name := fmt.Sprintf("node-%d", i)
		objects = append(objects, c.addNode(b, name), csiNode(name))
	}
	client := fake.NewSimpleClientset(objects...) //nolint:staticcheck // the other one takes minutes for so many objects
	// Both lists are handed over as they are: the client's own store takes minutes too.
	volumeList := &v1.PersistentVolumeList{Items: make([]v1.PersistentVolume, volumes)}
	claimList := &v1.PersistentVolumeClaimList{Items: []v1.PersistentVolumeClaim{*claim("small", gib), *claim("huge", 2*allocatableBytes)}}
	like := make([]*v1.PersistentVolume, manyNodes)
	for i := range volumes {
		if i < manyNodes {
			like[i] = volume(fmt.Sprintf("node-%d", i), gib)
		}
		name := fmt.Sprintf("%036d", i)
		bound := claim(name, gib)
		bound.UID, bound.Spec.VolumeName, bound.Status.Phase = types.UID(name), "pvc-"+name, v1.ClaimBound
		claimList.Items = append(claimList.Items, *bound)
		volumeList.Items[i] = *like[i%manyNodes]
		volumeList.Items[i].ObjectMeta = metav1.ObjectMeta{Name: "pvc-" + name, UID: types.UID("volume-" + name)}
		volumeList.Items[i].Spec.ClaimRef = &v1.ObjectReference{Namespace: bound.Namespace, Name: bound.Name, UID: bound.UID}
	}
	for resource, list := range map[string]k8sruntime.Object{"persistentvolumes": volumeList, "persistentvolumeclaims": claimList} {
		client.PrependReactor("list", resource, func(clienttesting.Action) (bool, k8sruntime.Object, error) { return true, list, nil })
	}
	c.start(ctx, b, client)
	return c
}

// asking is a pod that Filter is asked about for every node.
type asking struct {
	cluster *cluster
	pod     *v1.Pod
	state   framework.CycleState
}

func (c *cluster) asking(b *testing.B, pod *v1.Pod) *asking {
	a := &asking{cluster: c, pod: pod, state: schedulerframework.NewCycleState()}
	if _, status := c.local.PreFilter(context.Background(), a.state, pod, c.nodes); !status.IsSuccess() {
		b.Fatal(status)
	}
	return a
}

// pass asks for every node, and tells how many have room.
func (a *asking) pass() (fit int) {
	for _, node := range a.cluster.nodes {
		if a.cluster.local.Filter(context.Background(), a.state, a.pod, node).IsSuccess() {
			fit++
		}
	}
	return fit
}

func measureFilter(b *testing.B, figures *result.Set, few, many *cluster) {
	fits, fitsMany, refused := few.asking(b, few.pod), many.asking(b, many.pod), many.asking(b, waitingPod("huge"))
	if fit := []int{fits.pass(), fitsMany.pass(), refused.pass()}; !slices.Equal(fit, []int{manyNodes, manyNodes, 0}) {
		b.Fatalf("%v nodes have room", fit)
	}
	// Each pass finds the processor's caches full of the other's.
	nanos := inTurn(nothing, func() { fits.pass() }, func() { fitsMany.pass() })
	refusedNanos := inTurn(nothing, func() { refused.pass() })
	allocs := func(a *asking) float64 { return testing.AllocsPerRun(10, func() { a.pass() }) / manyNodes }
	figures.AtMost("filter_ns_per_node", nanos[1]/manyNodes, "ns", 1000)
	figures.AtMost("filter_ns_per_refused_node", refusedNanos[0]/manyNodes, "ns", 1000)
	figures.AtMost("filter_allocs_per_node", allocs(fitsMany), "count", 0)
	figures.AtMost("filter_allocs_per_refused_node", allocs(refused), "count", 0.01)
	figures.AtMost("filter_flatness_10_to_500k", nanos[1]/nanos[0], "ratio", 1.2)
}

// inTurn does each of the things once a round, and before it what is not timed. It
// returns how long each took, in nanoseconds: the lower quartile, because whatever
// else the machine does only adds.
func inTurn(before func(), things ...func()) []float64 {
	took := make([][]float64, len(things))
	for range rounds {
		for i, do := range things {
			before()
			start := time.Now()
			do()
			took[i] = append(took[i], float64(time.Since(start)))
		}
	}
	nanos := make([]float64, len(things))
	for i := range took {
		slices.Sort(took[i])
		nanos[i] = took[i][len(took[i])/4]
	}
	return nanos
}

// books are a ledger of its own, over the caches of a cluster.
type books struct {
	*schedplugin.Ledger
	b       *testing.B
	cluster *cluster
}

// rebuild makes books of all that is in the caches: claims and volumes are what
// there may be many of, and only they are timed.
func (c *cluster) rebuild(b *testing.B) (ledger books, took time.Duration) {
	core, storage := c.informers.Core().V1(), c.informers.Storage().V1()
	caches := schedplugin.Caches{
		Nodes: core.Nodes().Lister(), Volumes: core.PersistentVolumes().Lister(), Claims: core.PersistentVolumeClaims().Lister(),
		Pods: core.Pods().Lister(), Classes: storage.StorageClasses().Lister(), CSINodes: storage.CSINodes().Lister(),
	}
	ledger = books{schedplugin.NewLedger(schedplugin.LedgerOptions{Driver: capacity.DefaultDriverName, Caches: caches}), b, c}
	for _, name := range []string{"local-a", "local-b"} {
		ledger.must(ledger.SyncClass(name))
	}
	for _, node := range c.nodes {
		ledger.must(ledger.SyncNode(node.Node().Name))
	}
	claims, err := caches.Claims.List(labels.Everything())
	ledger.must(err)
	volumes, err := caches.Volumes.List(labels.Everything())
	ledger.must(err)
	start := time.Now()
	for _, one := range claims {
		ledger.must(ledger.SyncClaim(one.Namespace, one.Name))
	}
	for _, one := range volumes {
		ledger.must(ledger.SyncVolume(one.Name))
	}
	return ledger, time.Since(start)
}

func (l books) must(err error) {
	if err != nil {
		l.b.Fatal(err)
	}
}

func measureLedger(b *testing.B, figures *result.Set, few, many *cluster) {
	shortest := time.Duration(math.MaxInt64)
	var fewBooks, manyBooks books
	var bytes int64
	for range 3 {
		manyBooks = books{}
		before := heap()
		var took time.Duration
		manyBooks, took = many.rebuild(b)
		shortest, bytes = min(shortest, took), heap()-before
	}
	figures.Report("rebuild_500k_seconds", shortest.Seconds(), "s")
	figures.Report("ledger_bytes_per_volume", float64(bytes)/manyVolumes, "bytes")
	fewBooks, _ = few.rebuild(b)
	measureEvents(figures, fewBooks, manyBooks)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

const (
	// eventObjects is of how many objects there are events: so few that all that is
	// looked at for them stays in the processor's caches.
	eventObjects = 10
	// eventRepeats is how often, in a turn, each of them has its events.
	eventRepeats = 200
)

// measureEvents books what happens most often: a Node that says nothing new, a
// Node that publishes another figure, a volume that comes, and goes. Each is
// measured twice: again and again, where only the work counts; and "cold", with
// nothing of it in the processor's caches, as after much other work. What is
// kept of 500,000 volumes does not fit into those, whoever keeps it: beside the
// ledger's stands what the informer's own cache takes for the volume.
func measureEvents(figures *result.Set, few, many books) {
	cacheOnly := func(string) error { return nil }
	for _, event := range []struct {
		name      string
		few, many func()
	}{
		{"node_event_unchanged", few.sameNodes(), many.sameNodes()},
		{"node_event_published", few.changedNodes(), many.changedNodes()},
		{"volume_event", few.volumes(few.SyncVolume), many.volumes(many.SyncVolume)},
		{"volume_cache_only", few.volumes(cacheOnly), many.volumes(cacheOnly)},
	} {
		hot := withoutCollector(func() []float64 { return inTurn(nothing, again(event.few), again(event.many)) })
		figures.Report(event.name+"_ns", hot[1]/eventObjects/eventRepeats, "ns")
		figures.AtMost(event.name+"_flatness_10_to_500k", hot[1]/hot[0], "ratio", 1.2)
		cold := withoutCollector(func() []float64 { return inTurn(emptyProcessorCaches(), event.few, event.many) })
		figures.Report(event.name+"_cold_ns", cold[1]/eventObjects, "ns")
		figures.Report(event.name+"_cold_flatness_10_to_500k", cold[1]/cold[0], "ratio")
	}
}

// withoutCollector keeps the garbage collector from what is measured: in a heap of
// some GiB one run of it takes longer than all turns, and slows some of them.
func withoutCollector(measure func() []float64) []float64 {
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	return measure()
}

func again(do func()) func() {
	return func() {
		for range eventRepeats {
			do()
		}
	}
}

func nothing() {}

// emptyProcessorCaches returns a function that reads more than they hold.
func emptyProcessorCaches() func() {
	much, sum := make([]byte, 256<<20), byte(0)
	return func() {
		for i := 0; i < len(much); i += 64 {
			sum += much[i]
			much[i] = sum
		}
	}
}

func (l books) sameNodes() func() {
	return func() {
		for i := range eventObjects {
			l.must(l.SyncNode(fmt.Sprintf("node-%d", i)))
		}
	}
}

func (l books) changedNodes() func() {
	var nodes [2][eventObjects]*v1.Node
	for i := range eventObjects {
		name := fmt.Sprintf("node-%d", i)
		nodes[0][i], nodes[1][i] = node(l.b, name), node(l.b, name)
		nodes[1][i].Annotations[capacity.PoolsAnnotation(capacity.DefaultDriverName)] = fmt.Sprintf(`{"%s":"%d"}`, poolName, allocatableBytes+gib)
	}
	store := l.cluster.informers.Core().V1().Nodes().Informer().GetStore()
	round := 0
	return func() {
		round++
		for _, one := range nodes[round%2] {
			l.must(store.Update(one))
			l.must(l.SyncNode(one.Name))
		}
	}
}

func (l books) volumes(book func(name string) error) func() {
	var volumes [eventObjects]*v1.PersistentVolume
	for i := range eventObjects {
		volumes[i] = volume(fmt.Sprintf("node-%d", i), gib)
	}
	store := l.cluster.informers.Core().V1().PersistentVolumes().Informer().GetStore()
	round := 0
	return func() {
		round++
		change := store.Delete
		if round%2 == 1 {
			change = store.Add
		}
		for _, one := range volumes {
			l.must(change(one))
			l.must(book(one.Name))
		}
	}
}
