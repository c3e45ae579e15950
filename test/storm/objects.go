package storm

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/csi-local/csi-local/pkg/capacity"
)

const (
	namespace     = v1.NamespaceDefault
	schedulerName = "csi-local-scheduler"
	poolName      = "pool-ssd"
	driverName    = capacity.DefaultDriverName
	// manyPerNode is for what must not be what a node runs out of.
	manyPerNode = 10000
)

// classes share the one pool.
const classes = 2

func classNames() [classes]string { return [2]string{"local-dynamic-ssd", "local-dynamic-ssd-too"} }

func nodeName(i int) string { return fmt.Sprintf("node-%03d", i) }

// createObjects makes everything but pods and claims.
func createObjects(ctx context.Context, client kubernetes.Interface, o Options, capacityBytes int64) error {
	tracking := o.Tracking == InTree
	no := false
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName}, Spec: storagev1.CSIDriverSpec{
		StorageCapacity: &tracking, AttachRequired: &no,
		VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent},
	}}
	if _, err := client.StorageV1().CSIDrivers().Create(ctx, driver, metav1.CreateOptions{}); err != nil {
		return err
	}
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	for _, name := range classNames() {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: driverName,
			Parameters: map[string]string{capacity.ParamPool: poolName}, VolumeBindingMode: &mode}
		if _, err := client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	never := v1.PreemptNever
	for i, bytes := range volumeSizes() {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: priorityName(bytes)},
			Value: int32(1000 * (sizes - i)), PreemptionPolicy: &never}
		if _, err := client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for i := range o.Nodes {
		if err := createNode(ctx, client, nodeName(i), capacityBytes); err != nil {
			return err
		}
	}
	return waitForAccount(ctx, client)
}

// priorityName is of the class that has the scheduler take larger volumes first
// when it has the choice, as after a restart.
func priorityName(bytes int64) string { return fmt.Sprintf("volume-%d-gib", bytes/gib) }

func createNode(ctx context.Context, client kubernetes.Interface, name string, capacityBytes int64) error {
	pools, err := capacity.EncodePools(map[string]int64{poolName: capacityBytes})
	if err != nil {
		return err
	}
	nodes := client.CoreV1().Nodes()
	node, err := nodes.Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels:      map[string]string{v1.LabelHostname: name, capacity.TopologyKey(driverName): name},
		Annotations: map[string]string{capacity.PoolsAnnotation(driverName): pools}}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	node.Spec.Taints = nil // admission has added not-ready, which a controller would take away
	if node, err = nodes.Update(ctx, node, metav1.UpdateOptions{}); err != nil {
		return err
	}
	// So much that a pod without requests changes the score: with very much more, all
	// nodes are equal to the scheduler, and it fills the first.
	node.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("16"), v1.ResourceMemory: resource.MustParse("64Gi"),
		v1.ResourcePods: *resource.NewQuantity(manyPerNode, resource.DecimalSI)}
	node.Status.Capacity = node.Status.Allocatable
	node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	if _, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		return err
	}
	count := int32(manyPerNode)
	_, err = client.StorageV1().CSINodes().Create(ctx, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driverName, NodeID: name,
			TopologyKeys: []string{capacity.TopologyKey(driverName)}, Allocatable: &storagev1.VolumeNodeResources{Count: &count}}}}}, metav1.CreateOptions{})
	return err
}

// waitForAccount waits for the service account without which no pod is admitted.
func waitForAccount(ctx context.Context, client kubernetes.Interface) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("the controller manager makes no service account: %w", err)
	}
	return nil
}

// createPod makes the pod, and before it the claim, so that the scheduler knows
// the one when it sees the other.
func createPod(ctx context.Context, client kubernetes.Interface, p pod, withVolume bool) error {
	no := false
	object := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.name}, Spec: v1.PodSpec{
		SchedulerName: p.scheduler, PriorityClassName: priorityName(p.bytes), AutomountServiceAccountToken: &no,
		Containers: []v1.Container{{Name: "main", Image: "none"}}}}
	if withVolume {
		claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: p.name}, Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &p.class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: quantity(p.bytes)}}}}
		if _, err := client.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
			return err
		}
		object.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: p.name}}}}
	}
	_, err := client.CoreV1().Pods(namespace).Create(ctx, object, metav1.CreateOptions{})
	return err
}

func quantity(bytes int64) resource.Quantity { return *resource.NewQuantity(bytes, resource.BinarySI) }
