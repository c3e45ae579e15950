package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	schedulerruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/schedplugin"
)

const (
	gib = int64(1) << 30
	// Each node's pool: nearly full, but on one node in roomyEvery.
	poolName         = "pool-ssd"
	allocatableBytes = 1000 * gib
	roomyEvery       = 10
	roomyBytes       = 80 * gib
	fullBytes        = 8 * gib
	requestedBytes   = 50 * gib
)

// cluster is the real scheduler over an API that stands still, and two of its
// plugins by themselves.
type cluster struct {
	tracking  bool
	informers informers.SharedInformerFactory
	nodes     []framework.NodeInfo
	pod       *v1.Pod
	// local is ours; inTree is VolumeBinding.
	local, inTree filterer
	// inTreeArgs are VolumeBinding's defaults.
	inTreeArgs *config.VolumeBindingArgs
	// later is one more plugin, after all others, if it is set.
	later framework.Plugin
	// profile is what the scheduler runs plugins by.
	profile schedulerframework.Framework
}

// newCluster has nodes with one volume each, two classes on one pool, and a pod
// with a claim; tracking tells whether the driver wants in-tree capacity tracking.
func newCluster(tb testing.TB, nodes int, tracking bool) *cluster {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	tb.Cleanup(cancel)
	c := &cluster{tracking: tracking, pod: waitingPod("data")}
	c.start(ctx, tb, fake.NewClientset(c.objects(tb, nodes)...))
	return c
}

// start starts all of the scheduler but its loop.
func (c *cluster) start(ctx context.Context, tb testing.TB, client kubernetes.Interface) {
	tb.Helper()
	cfg, err := options.LoadConfigFromFile(klog.Background(), shipped+"/config.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	for _, p := range cfg.Profiles[0].PluginConfig {
		if args, ok := p.Args.(*config.VolumeBindingArgs); ok {
			c.inTreeArgs = args
		}
	}
	c.informers = scheduler.NewInformerFactory(client, 0, nil)
	recorder := func(string) events.EventRecorderLogger { return &events.FakeRecorder{} }
	registry := schedulerruntime.Registry{schedplugin.Name: c.factory}
	if c.later != nil {
		registry[c.later.Name()] = func(context.Context, runtime.Object, framework.Handle) (framework.Plugin, error) { return c.later, nil }
		points := &cfg.Profiles[0].Plugins.MultiPoint
		points.Enabled = append(points.Enabled, config.Plugin{Name: c.later.Name()})
	}
	s, err := scheduler.New(ctx, client, c.informers, nil, recorder, scheduler.WithProfiles(cfg.Profiles...), scheduler.WithFrameworkOutOfTreeRegistry(registry))
	if err != nil {
		tb.Fatal(err)
	}
	c.profile = s.Profiles[cfg.Profiles[0].SchedulerName]
	c.informers.Start(ctx.Done())
	c.informers.WaitForCacheSync(ctx.Done())
	c.waitForBooks(tb)
}

// factory makes our plugin as the scheduler does, and VolumeBinding with the same handle.
func (c *cluster) factory(ctx context.Context, args runtime.Object, handle framework.Handle) (framework.Plugin, error) {
	local, err := schedplugin.NewFactory()(ctx, args, handle)
	if err != nil {
		return nil, err
	}
	inTree, err := volumebinding.New(ctx, c.inTreeArgs, handle, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		return nil, err
	}
	c.local, c.inTree = local.(filterer), inTree.(filterer)
	return local, nil
}

func (c *cluster) waitForBooks(tb testing.TB) {
	tb.Helper()
	err := wait.PollUntilContextTimeout(context.Background(), 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, status := c.local.PreFilter(ctx, schedulerframework.NewCycleState(), c.pod, c.nodes)
		return status.IsSuccess(), nil
	})
	if err != nil {
		tb.Fatalf("the books are not complete: %v", err)
	}
}

func (c *cluster) objects(tb testing.TB, nodes int) []runtime.Object {
	tb.Helper()
	objects := []runtime.Object{
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: capacity.DefaultDriverName}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &c.tracking}},
		class("local-a"), class("local-b"), claim("data", requestedBytes), c.pod,
	}
	for i := range nodes {
		left := fullBytes
		if i%roomyEvery == 0 {
			left = roomyBytes
		}
		name := fmt.Sprintf("node-%d", i)
		objects = append(objects, c.addNode(tb, name), csiNode(name), volume(name, allocatableBytes-left),
			storageCapacity(name, "local-a", left), storageCapacity(name, "local-b", left))
	}
	return objects
}

func waitingPod(claim string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db-" + claim, UID: types.UID("pod-" + claim)}, Spec: v1.PodSpec{SchedulerName: "csi-local-scheduler",
		Volumes: []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}}}
}

func class(name string) *storagev1.StorageClass {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: capacity.DefaultDriverName,
		Parameters: map[string]string{capacity.ParamPool: poolName}, VolumeBindingMode: &mode}
}

func claim(name string, bytes int64) *v1.PersistentVolumeClaim {
	class := "local-a"
	return &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("claim-" + name)},
		Spec: v1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: quantity(bytes)}}},
		Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending}}
}

func node(tb testing.TB, name string) *v1.Node {
	tb.Helper()
	pools, err := capacity.EncodePools(map[string]int64{poolName: allocatableBytes})
	if err != nil {
		tb.Fatal(err)
	}
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name),
		Labels:      map[string]string{v1.LabelHostname: name, capacity.TopologyKey(capacity.DefaultDriverName): name},
		Annotations: map[string]string{capacity.PoolsAnnotation(capacity.DefaultDriverName): pools}}}
}

func csiNode(name string) *storagev1.CSINode {
	count := int32(100)
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
		Name: capacity.DefaultDriverName, NodeID: name, TopologyKeys: []string{capacity.TopologyKey(capacity.DefaultDriverName)},
		Allocatable: &storagev1.VolumeNodeResources{Count: &count}}}}}
}

// addNode makes a node, and what the scheduler knows it by.
func (c *cluster) addNode(tb testing.TB, name string) *v1.Node {
	tb.Helper()
	n, info := node(tb, name), schedulerframework.NewNodeInfo()
	info.SetNode(n)
	c.nodes = append(c.nodes, info)
	return n
}

// volume takes bytes of a node's pool.
func volume(node string, bytes int64) *v1.PersistentVolume {
	return &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + node, UID: types.UID("pv-" + node)},
		Spec: v1.PersistentVolumeSpec{Capacity: v1.ResourceList{v1.ResourceStorage: quantity(bytes)}, StorageClassName: "local-b",
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			ClaimRef:    &v1.ObjectReference{Namespace: "default", Name: "claim-" + node, UID: types.UID("claim-" + node)},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: capacity.DefaultDriverName,
				VolumeHandle: "vg/" + node, VolumeAttributes: map[string]string{capacity.ParamPool: poolName}}},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: capacity.TopologyKey(capacity.DefaultDriverName),
					Operator: v1.NodeSelectorOpIn, Values: []string{node}}}}}}}},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeBound}}
}

// storageCapacity is what a provisioner on the node would publish for a class.
func storageCapacity(node, class string, bytes int64) *storagev1.CSIStorageCapacity {
	left := quantity(bytes)
	return &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "csisc-" + class + "-" + node}, StorageClassName: class,
		Capacity: &left, MaximumVolumeSize: &left,
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{capacity.TopologyKey(capacity.DefaultDriverName): node}}}
}

func quantity(bytes int64) resource.Quantity { return *resource.NewQuantity(bytes, resource.BinarySI) }
