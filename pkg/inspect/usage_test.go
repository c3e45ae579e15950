package inspect_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/inspect/inspecttest"
	"github.com/csi-local/csi-local/pkg/schedplugin"
)

// What is told as used is what the scheduler's ledger counts when it has just started.
func TestUsage_IsWhatTheSchedulerCounts(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		c := inspecttest.New()
		objects := cluster(t, r)
		for _, o := range objects {
			c.Put(o.(runtime.Object))
		}
		usage, ledger := c.Snapshot(t, driver).Usage(), ledgerOf(t, objects)
		for _, node := range []string{"n1", "n2", "n9"} {
			for _, pool := range []string{"pool-ssd", "pool-hdd"} {
				if got, want := usage.Of(node, pool).Bytes, ledger.Pool(node, pool).UsedBytes; got != want {
					r.Errorf("%s, %s: %d bytes, the ledger says %d", node, pool, got, want)
				}
			}
		}
	})
}

// cluster draws volumes, claims and pods in all the forms that matter.
func cluster(t *testing.T, r *rapid.T) []metav1.Object {
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	class := func(name string, parameters map[string]string) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: driver, VolumeBindingMode: &wait, Parameters: parameters}
	}
	objects := []metav1.Object{
		class("local-dynamic-ssd", map[string]string{"pool": "pool-ssd"}),
		class("mirrored", map[string]string{"pool": "pool-hdd", "layout": "raid1", "mirrors": "2"}),
		class("xfs", map[string]string{"pool": "pool-ssd", capacity.ParamFilesystem: "xfs"}),
		class("broken", map[string]string{"pol": "pool-ssd"}),
	}
	for _, name := range []string{"n1", "n2"} {
		objects = append(objects, inspecttest.Node(t, name, metav1.Time{Time: inspecttest.New().Time}))
	}
	for i := range rapid.IntRange(0, 12).Draw(r, "volumes") {
		name := fmt.Sprintf("c%d", i)
		claim, volume, pod := inspecttest.Volume(name, rapid.SampledFrom([]string{"n1", "n2", "n9"}).Draw(r, "node"), rapid.Int64Range(1, 1<<33).Draw(r, "bytes"))
		if rapid.Bool().Draw(r, "placed by the scheduler") {
			claim.Annotations = map[string]string{"volume.kubernetes.io/selected-node": "n1"}
		}
		switch rapid.SampledFrom([]string{"bound", "made", "growing", "block", "released", "raid", "by hostname", "pool unknown", "selected", "lost", "inline"}).Draw(r, "form") {
		case "made": // and not bound yet
			claim.Spec.VolumeName, claim.Status.Phase = "", v1.ClaimPending
		case "growing":
			claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(1<<34, resource.BinarySI)}
		case "released":
			objects = append(objects, volume)
			continue
		case "raid":
			volume.Spec.CSI.VolumeAttributes = map[string]string{"pool": "pool-hdd", "layout": "raid1", "mirrors": "2", "stage": "x"}
		case "by hostname":
			volume.Spec.NodeAffinity, volume.Labels = nil, map[string]string{v1.LabelHostname: "n2"}
		case "pool unknown":
			volume.Spec.CSI.VolumeAttributes, volume.Spec.StorageClassName = nil, rapid.SampledFrom([]string{"gone", "xfs"}).Draw(r, "class")
		case "selected", "block":
			claim.Spec.VolumeName, claim.Status.Phase = "", v1.ClaimPending
			claim.Annotations = map[string]string{"volume.kubernetes.io/selected-node": "n1", "volume.kubernetes.io/storage-provisioner": driver}
			claim.Spec.StorageClassName = new(rapid.SampledFrom([]string{"local-dynamic-ssd", "mirrored", "xfs", "broken", "gone"}).Draw(r, "class"))
			if rapid.Bool().Draw(r, "block") {
				claim.Spec.VolumeMode = new(v1.PersistentVolumeBlock)
			}
			objects = append(objects, claim)
			continue
		case "lost":
			claim.Status.Phase = v1.ClaimLost
			objects = append(objects, claim)
			continue
		case "inline":
			pod.Spec.Volumes = []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{
				Driver: driver, VolumeAttributes: map[string]string{"pool": "pool-ssd", "size": rapid.SampledFrom([]string{"1Gi", "300Mi", "much"}).Draw(r, "size")},
			}}}}
			objects = append(objects, pod)
			continue
		}
		objects = append(objects, claim, volume, pod)
	}
	return objects
}

// ledgerOf is the scheduler's, fed with the objects.
func ledgerOf(t *testing.T, objects []metav1.Object) *schedplugin.Ledger {
	t.Helper()
	index := func() cache.Indexer {
		return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	nodes, volumes, claims, pods, classes, csiNodes := index(), index(), index(), index(), index(), index()
	ledger := schedplugin.NewLedger(schedplugin.LedgerOptions{Driver: driver, Caches: schedplugin.Caches{
		Nodes: corelisters.NewNodeLister(nodes), Volumes: corelisters.NewPersistentVolumeLister(volumes),
		Claims: corelisters.NewPersistentVolumeClaimLister(claims), Pods: corelisters.NewPodLister(pods),
		Classes: storagelisters.NewStorageClassLister(classes), CSINodes: storagelisters.NewCSINodeLister(csiNodes),
	}})
	var syncs []func() error
	for _, o := range objects {
		var indexer cache.Indexer
		switch o.(type) {
		case *v1.Node:
			indexer, syncs = nodes, append(syncs, func() error { return ledger.SyncNode(o.GetName()) })
		case *v1.PersistentVolume:
			indexer, syncs = volumes, append(syncs, func() error { return ledger.SyncVolume(o.GetName()) })
		case *v1.PersistentVolumeClaim:
			indexer, syncs = claims, append(syncs, func() error { return ledger.SyncClaim(o.GetNamespace(), o.GetName()) })
		case *v1.Pod:
			indexer, syncs = pods, append(syncs, func() error { return ledger.SyncPod(o.GetNamespace(), o.GetName()) })
		case *storagev1.StorageClass:
			indexer, syncs = classes, append(syncs, func() error { return ledger.SyncClass(o.GetName()) })
		default:
			t.Fatalf("no stream for %T", o)
		}
		if err := indexer.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	for _, sync := range syncs {
		if err := sync(); err != nil {
			t.Fatal(err)
		}
	}
	return ledger
}
