package schedplugin

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-scheduler/framework"
)

// fixture is a plugin over caches that the test fills by hand.
type fixture struct {
	t       testing.TB
	caches  [streams]cache.Indexer
	listers Caches
	plugin  *LocalCapacity
	ledger  *Ledger
	open    []Unsettled
}

func newFixture(t testing.TB, objects ...metav1.Object) *fixture {
	f := &fixture{t: t}
	for s := range streams {
		f.caches[s] = newIndexer()
	}
	f.listers = Caches{
		Nodes: corelisters.NewNodeLister(f.caches[streamNodes]), Volumes: corelisters.NewPersistentVolumeLister(f.caches[streamVolumes]),
		Claims: corelisters.NewPersistentVolumeClaimLister(f.caches[streamClaims]), Pods: corelisters.NewPodLister(f.caches[streamPods]),
		Classes: storagelisters.NewStorageClassLister(f.caches[streamClasses]), CSINodes: storagelisters.NewCSINodeLister(f.caches[streamCSINodes]),
	}
	f.restart()
	f.put(objects...)
	return f
}

// restart starts the plugin anew, on the caches as they are.
func (f *fixture) restart() {
	f.plugin = testPlugin(f.listers, testDriver)
	f.ledger = f.plugin.drivers[0].ledger
	f.open = nil
	f.plugin.shared.settle = func(_ *Ledger, u Unsettled) { f.open = append(f.open, u) }
	for s := range streams {
		for _, key := range f.caches[s].ListKeys() {
			f.sync(s, key)
		}
	}
}

func bare(o metav1.Object) metav1.Object {
	switch b := o.(type) {
	case claimBuilder:
		return b.PersistentVolumeClaim
	case volumeBuilder:
		return b.PersistentVolume
	case podBuilder:
		return b.Pod
	default:
		return o
	}
}

func streamOf(t testing.TB, o metav1.Object) stream {
	switch o.(type) {
	case *v1.Node:
		return streamNodes
	case *storagev1.CSINode:
		return streamCSINodes
	case *v1.PersistentVolume:
		return streamVolumes
	case *v1.PersistentVolumeClaim:
		return streamClaims
	case *v1.Pod:
		return streamPods
	case *storagev1.StorageClass:
		return streamClasses
	}
	t.Fatalf("no stream for %T", o)
	return 0
}

// cache puts objects into the caches without telling the ledger.
func (f *fixture) cache(objects ...metav1.Object) {
	for _, o := range objects {
		o = bare(o)
		must(f.t, f.caches[streamOf(f.t, o)].Add(o))
	}
}

// put puts objects into the caches and tells the ledger.
func (f *fixture) put(objects ...metav1.Object) {
	f.cache(objects...)
	for _, o := range objects {
		o = bare(o)
		f.sync(streamOf(f.t, o), keyOf(o))
	}
}

func (f *fixture) remove(objects ...metav1.Object) {
	for _, o := range objects {
		o = bare(o)
		s := streamOf(f.t, o)
		must(f.t, f.caches[s].Delete(o))
		f.sync(s, keyOf(o))
	}
}

func (f *fixture) sync(s stream, key string) {
	w := &world{t: f.t}
	w.sync(f.ledger, notice{stream: s, key: key})
}

func (f *fixture) nodes() []*fakeNodeInfo {
	var infos []*fakeNodeInfo
	for _, o := range f.caches[streamNodes].List() {
		node := o.(*v1.Node)
		var pods []*v1.Pod
		for _, p := range f.caches[streamPods].List() {
			if pod := p.(*v1.Pod); pod.Spec.NodeName == node.Name {
				pods = append(pods, pod)
			}
		}
		infos = append(infos, nodeInfo(node, pods...))
	}
	return infos
}

// filter returns the status of each node, or the one for all nodes.
func (f *fixture) filter(pod podBuilder) (*fakeState, map[string]*framework.Status, *framework.Status) {
	return filterAll(context.Background(), f.plugin, pod.Pod, f.nodes()...)
}

// accepted are the names of the nodes that the pod fits, in order.
func (f *fixture) accepted(pod podBuilder) map[string]bool {
	f.t.Helper()
	_, statuses, refused := f.filter(pod)
	out := map[string]bool{}
	if refused.IsSkip() {
		for _, n := range f.nodes() {
			out[n.node.Name] = true
		}
	}
	for name, status := range statuses {
		if status.IsSuccess() {
			out[name] = true
		}
	}
	return out
}

// reserve takes the pod through a scheduling cycle up to Reserve.
func (f *fixture) reserve(pod podBuilder, node string) *fakeState {
	f.t.Helper()
	state, statuses, refused := f.filter(pod)
	if !refused.IsSuccess() || !statuses[node].IsSuccess() {
		f.t.Fatalf("%s does not fit %s: %v %v", pod.Name, node, refused, statuses[node])
	}
	if status := f.plugin.Reserve(context.Background(), state, pod.Pod, node); !status.IsSuccess() {
		f.t.Fatalf("Reserve %s on %s: %v", pod.Name, node, status)
	}
	return state
}

func (f *fixture) permit(state *fakeState, pod podBuilder, node string) {
	f.plugin.Permit(context.Background(), state, pod.Pod, node)
}

func (f *fixture) unreserve(state *fakeState, pod podBuilder, node string) {
	f.plugin.Unreserve(context.Background(), state, pod.Pod, node)
}

// used is what the books charge, in bytes.
func (f *fixture) used(node, pool string) int64 { return f.ledger.Pool(node, pool).UsedBytes }

func (f *fixture) wantUsed(when, node, pool string, want int64) {
	f.t.Helper()
	if got := f.used(node, pool); got != want {
		f.t.Errorf("%s: %s %s: used %s, want %s", when, node, pool, humanBytes(got), humanBytes(want))
	}
}
