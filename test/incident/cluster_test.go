package incident

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/schedplugin"
	"github.com/csi-local/csi-local/test/testbed"
)

const (
	namespace = "default"
	// patience is for one step; the whole takes seconds.
	patience = 2 * time.Minute
)

// cluster is the control plane without controllers: the test does what they
// would, so that it decides when.
type cluster struct {
	t           *testing.T
	testbed     *testbed.Cluster
	client      kubernetes.Interface
	provisioner *provisioner
}

func newCluster(t *testing.T, bed *testbed.Cluster) *cluster {
	t.Helper()
	client, err := kubernetes.NewForConfig(bed.Admin())
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, testbed: bed, client: client}
	c.wait("the namespaces", func(ctx context.Context) (bool, error) {
		for _, name := range []string{namespace, metav1.NamespaceSystem} {
			if _, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err != nil {
				return false, ignoreNotFound(err)
			}
		}
		return true, nil
	})
	return c
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) wait(what string, done func(ctx context.Context) (bool, error)) {
	c.t.Helper()
	if err := wait.PollUntilContextTimeout(c.t.Context(), 100*time.Millisecond, patience, true, done); err != nil {
		c.t.Fatalf("waiting for %s: %v", what, err)
	}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (c *cluster) createClasses(random *rand.Rand, names ...string) {
	c.t.Helper()
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	for _, name := range names {
		_, err := c.client.StorageV1().StorageClasses().Create(c.t.Context(), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name},
			Provisioner: capacity.DefaultDriverName, Parameters: map[string]string{capacity.ParamPool: pool}, VolumeBindingMode: &mode}, metav1.CreateOptions{})
		c.must(err)
	}
}

func (c *cluster) deleteClass(name string) {
	c.t.Helper()
	c.must(c.client.StorageV1().StorageClasses().Delete(c.t.Context(), name, metav1.DeleteOptions{}))
}

// createNode makes a node whose pool has so many bytes, and its provisioner.
func (c *cluster) createNode(bytes int64) {
	c.t.Helper()
	pools, err := capacity.EncodePools(map[string]int64{pool: bytes})
	c.must(err)
	nodes := c.client.CoreV1().Nodes()
	n, err := nodes.Create(c.t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName,
		Labels:      map[string]string{v1.LabelHostname: nodeName, capacity.TopologyKey(capacity.DefaultDriverName): nodeName},
		Annotations: map[string]string{capacity.PoolsAnnotation(capacity.DefaultDriverName): pools}}}, metav1.CreateOptions{})
	c.must(err)
	n.Spec.Taints = nil // admission has added not-ready, which a controller would take away
	n, err = nodes.Update(c.t.Context(), n, metav1.UpdateOptions{})
	c.must(err)
	n.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("64"), v1.ResourceMemory: resource.MustParse("64Gi"), v1.ResourcePods: resource.MustParse("110")}
	n.Status.Capacity = n.Status.Allocatable
	n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	_, err = nodes.UpdateStatus(c.t.Context(), n, metav1.UpdateOptions{})
	c.must(err)
	count := int32(100)
	_, err = c.client.StorageV1().CSINodes().Create(c.t.Context(), &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: nodeName},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: capacity.DefaultDriverName, NodeID: nodeName,
			TopologyKeys: []string{capacity.TopologyKey(capacity.DefaultDriverName)}, Allocatable: &storagev1.VolumeNodeResources{Count: &count}}}}}, metav1.CreateOptions{})
	c.must(err)
	c.provisioner = startProvisioner(c.t, c.client, bytes)
}

// createPod makes a pod, and a claim with the same name.
func (c *cluster) createPod(name, class string) {
	c.t.Helper()
	_, err := c.client.CoreV1().PersistentVolumeClaims(namespace).Create(c.t.Context(), &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: quantity(volumeBytes)}}}}, metav1.CreateOptions{})
	c.must(err)
	_, err = c.client.CoreV1().Pods(namespace).Create(c.t.Context(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{
		SchedulerName: "csi-local-scheduler", Containers: []v1.Container{{Name: "main", Image: "none"}},
		Volumes: []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}}}, metav1.CreateOptions{})
	c.must(err)
}

// deletePod takes a pod and its claim away. A volume of the claim stays, Released.
func (c *cluster) deletePod(name string) {
	c.t.Helper()
	ctx, now := c.t.Context(), int64(0)
	c.must(c.client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	claims := c.client.CoreV1().PersistentVolumeClaims(namespace)
	claim, err := claims.Get(ctx, name, metav1.GetOptions{})
	c.must(err)
	c.must(claims.Delete(ctx, name, metav1.DeleteOptions{}))
	// A controller would take the finalizer away, now that no pod uses the claim.
	_, err = claims.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	c.must(ignoreNotFound(err))
	if claim.Spec.VolumeName == "" {
		return
	}
	volumes := c.client.CoreV1().PersistentVolumes()
	volume, err := volumes.Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	c.must(err)
	volume.Status.Phase = v1.VolumeReleased
	_, err = volumes.UpdateStatus(ctx, volume, metav1.UpdateOptions{})
	c.must(err)
}

// reclaim frees a volume's bytes and takes its object away, in that order.
func (c *cluster) reclaim(name string) {
	c.t.Helper()
	volumes := c.client.CoreV1().PersistentVolumes()
	c.provisioner.free(name)
	c.must(volumes.Delete(c.t.Context(), name, metav1.DeleteOptions{}))
	_, err := volumes.Patch(c.t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	c.must(ignoreNotFound(err))
}

func (c *cluster) waitScheduled(name string) {
	c.t.Helper()
	c.wait("pod "+name+" to be scheduled", func(ctx context.Context) (bool, error) {
		p, err := c.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && p.Spec.NodeName != "", err
	})
}

// waitRefused waits until the scheduler has said why the pod has no node.
func (c *cluster) waitRefused(name string) {
	c.t.Helper()
	want := fmt.Sprintf("0/1 nodes are available: 1 %s.", schedplugin.ReasonInsufficientCapacity)
	c.wait("pod "+name+" to be refused", func(ctx context.Context) (bool, error) {
		p, err := c.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if p.Spec.NodeName != "" {
			return false, fmt.Errorf("pod %s is on node %s, which is full", name, p.Spec.NodeName)
		}
		for _, condition := range p.Status.Conditions {
			if condition.Type != v1.PodScheduled || condition.Status != v1.ConditionFalse {
				continue
			}
			if len(condition.Message) < len(want) || condition.Message[:len(want)] != want {
				return false, fmt.Errorf("pod %s: %q, want %q", name, condition.Message, want)
			}
			return true, nil
		}
		return false, nil
	})
}

// waitScheduledAmong waits until so many of the pods have a node, and no more.
func (c *cluster) waitScheduledAmong(prefix string, pods, want int) {
	c.t.Helper()
	c.wait(fmt.Sprintf("%d pods of %s to be scheduled", want, prefix), func(ctx context.Context) (bool, error) {
		scheduled := 0
		for i := range pods {
			p, err := c.client.CoreV1().Pods(namespace).Get(ctx, fmt.Sprintf("%s-%d", prefix, i), metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			if p.Spec.NodeName != "" {
				scheduled++
			}
		}
		if scheduled > want {
			return false, fmt.Errorf("%d pods have a node, but there is room for %d", scheduled, want)
		}
		return scheduled == want, nil
	})
}
