package inspecttest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/inspect"
)

// What [Healthy] has.
const (
	Driver    = capacity.DefaultDriverName
	Namespace = "kube-system"
	// User is the namespace of claims and pods that use them.
	User = "shop"
	// Version is that of the images in the manifests.
	Version = "v0.1.0"

	// PoolBytes are allocatable in each pool.
	PoolBytes = int64(100 << 30)
	poolsFile = `pools:
- {name: pool-ssd, volumeGroup: vg-ssd, type: thick}
- {name: pool-hdd, volumeGroup: vg-hdd, type: thin, thinPool: tp0}
`
)

// Healthy is a cluster of nodes n1, n2, …, with csi-local as in the manifests of the
// folder, and for each node that many volumes, claims and pods.
func Healthy(t testing.TB, manifests string, nodes, volumes int) *Cluster {
	t.Helper()
	return Filled(t, Manifests(t, manifests), nodes, volumes)
}

// Filled is [Healthy] with manifests that were read before.
func Filled(t testing.TB, manifests []runtime.Object, nodes, volumes int) *Cluster {
	t.Helper()
	c := New()
	old := metav1.NewTime(c.Time.Add(-72 * time.Hour))
	for _, object := range manifests {
		c.Put(object.DeepCopyObject())
	}
	Get[*v1.ConfigMap](t, c, "csi-local-pools").Data["pools.yaml"] = poolsFile
	d := Get[*appsv1.DaemonSet](t, c, "csi-local-node")
	d.Status = appsv1.DaemonSetStatus{DesiredNumberScheduled: int32(nodes), CurrentNumberScheduled: int32(nodes), NumberReady: int32(nodes)} //nolint:gosec // few
	for _, object := range c.objects[inspect.Deployments] {
		if o, ok := object.(*appsv1.Deployment); ok {
			o.CreationTimestamp, o.Status.ReadyReplicas = old, 2
		}
	}
	c.Put(Lease("csi-local-controller-"+Driver, c.Time), Lease("csi-local-scheduler", c.Time))
	for i := range nodes {
		name := fmt.Sprintf("n%d", i+1)
		c.Put(Node(t, name, old), CSINode(name, 100), DriverPod(name, d, old))
		for j := range volumes {
			claim, volume, pod := Volume(fmt.Sprintf("%s-%d", name, j), name, 1<<30)
			c.Put(claim, volume, pod)
		}
	}
	return c
}

// Manifests reads every object of the folder.
func Manifests(t testing.TB, folder string) (objects []runtime.Object) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "csi-local.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split("\n"+string(text), "\n---\n") {
		if strings.Contains(document, "\nkind: ") {
			object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
			if err != nil {
				t.Fatalf("%v in:\n%s", err, document)
			}
			objects = append(objects, object)
		}
	}
	return objects
}

// Lease is one that was renewed at that time.
func Lease(name string, renewed time.Time) *coordinationv1.Lease {
	at := metav1.NewMicroTime(renewed.Add(-2 * time.Second))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("process-1"), LeaseDurationSeconds: new(int32(15)), RenewTime: &at},
	}
}

// Node is one that publishes 100 GiB of both pools, as the reporter does.
func Node(t testing.TB, name string, changed metav1.Time) *v1.Node {
	t.Helper()
	pools, err := capacity.EncodePools(map[string]int64{"pool-ssd": PoolBytes, "pool-hdd": PoolBytes})
	if err != nil {
		t.Fatal(err)
	}
	report, err := capacity.EncodeReport(capacity.Report{
		Format: capacity.ReportFormat, Writer: Version, BootID: "boot", Generation: 1, Changed: changed.Time,
		ExtentSizes: map[string]int64{"pool-ssd": 4 << 20, "pool-hdd": 4 << 20},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{v1.LabelHostname: name, capacity.TopologyKey(Driver): name},
			Annotations:   map[string]string{capacity.PoolsAnnotation(Driver): pools, capacity.ReportAnnotation(Driver): report},
			ManagedFields: []metav1.ManagedFieldsEntry{Wrote(Driver, capacity.PoolsAnnotation(Driver), changed)},
		},
		Status: v1.NodeStatus{
			NodeInfo:   v1.NodeSystemInfo{KubeletVersion: "v1.37.2"},
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, LastTransitionTime: changed}},
		},
	}
}

// Wrote says that the manager has written the annotation.
func Wrote(manager, key string, at metav1.Time) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Time: &at,
		FieldsV1: metav1.NewFieldsV1(fmt.Sprintf(`{"f:metadata":{"f:annotations":{"f:%s":{}}}}`, key)),
	}
}

// CSINode is as kubelet makes it when the driver registers.
func CSINode(name string, slots int32) *storagev1.CSINode {
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
		{Name: "other.example", NodeID: name},
		{Name: Driver, NodeID: name, TopologyKeys: []string{capacity.TopologyKey(Driver)}, Allocatable: &storagev1.VolumeNodeResources{Count: &slots}},
	}}}
}

// DriverPod is the DaemonSet's pod on the node, ready.
func DriverPod(node string, d *appsv1.DaemonSet, since metav1.Time) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-" + node, Labels: d.Spec.Template.Labels, CreationTimestamp: since},
		Spec:       *d.Spec.Template.Spec.DeepCopy(),
		Status: v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{
			{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: since},
		}},
	}
	pod.Spec.NodeName = node
	return pod
}

// Claim asks for a volume of local-dynamic-ssd.
func Claim(name string, bytes int64) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: User, Name: name, UID: types.UID("uid-" + name)},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: new("local-dynamic-ssd"), AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(bytes, resource.BinarySI)}},
		},
		Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
	}
}

// Volume is a bound claim with its volume on the node, and a pod that uses it.
func Volume(name, node string, bytes int64) (*v1.PersistentVolumeClaim, *v1.PersistentVolume, *v1.Pod) {
	claim := Claim(name, bytes)
	volume := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID)},
		Spec: v1.PersistentVolumeSpec{
			StorageClassName: "local-dynamic-ssd", PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimDelete,
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes,
			ClaimRef: &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
				Driver: Driver, VolumeHandle: "vg-ssd/pvc-" + string(claim.UID), VolumeAttributes: map[string]string{capacity.ParamPool: "pool-ssd"},
			}},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
				{MatchExpressions: []v1.NodeSelectorRequirement{{Key: capacity.TopologyKey(Driver), Operator: v1.NodeSelectorOpIn, Values: []string{node}}}},
			}}},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeBound},
	}
	claim.Spec.VolumeName, claim.Status.Phase = volume.Name, v1.ClaimBound
	return claim, volume, UserPod(name, node, name)
}

// UserPod is a pod that uses a claim.
func UserPod(name, node, claim string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: User, Name: name, UID: types.UID("pod-" + name)},
		Spec: v1.PodSpec{
			NodeName: node, SchedulerName: "csi-local-scheduler", Containers: []v1.Container{{Name: "c", Image: "busybox"}},
			Volumes: []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}},
		},
	}
}
