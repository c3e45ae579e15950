package incident

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/schedplugin"
)

// world is a node and all that concerns it: a pool, classes, pods that run there
// or nowhere. The test does what controllers and kubelet would, so that it decides
// when.
type world struct {
	t *testing.T
	*cluster
	random         *rand.Rand
	name           string
	node, pool     string
	classA, classB string
	// The node has room for exactly the stress pods; the late ones come after them.
	stress, late int
}

// pod is the name of a pod, and of its claim.
func (w *world) pod(kind string, i int) string { return fmt.Sprintf("%s-%s-%d", w.name, kind, i) }

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) createClasses(names ...string) {
	w.t.Helper()
	w.shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	for _, name := range names {
		_, err := w.client.StorageV1().StorageClasses().Create(w.t.Context(), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name},
			Provisioner: capacity.DefaultDriverName, Parameters: map[string]string{capacity.ParamPool: w.pool}, VolumeBindingMode: &mode}, metav1.CreateOptions{})
		w.must(err)
	}
}

func (w *world) deleteClass(name string) {
	w.t.Helper()
	w.must(w.client.StorageV1().StorageClasses().Delete(w.t.Context(), name, metav1.DeleteOptions{}))
}

// createNode makes a node whose pool has room for the stress pods, and its provisioner.
func (w *world) createNode() {
	w.t.Helper()
	bytes := int64(w.stress) * volumeBytes
	w.provisioner.addDisk(w.node, w.pool, bytes)
	pools, err := capacity.EncodePools(map[string]int64{w.pool: bytes})
	w.must(err)
	count := int32(100)
	_, err = w.client.StorageV1().CSINodes().Create(w.t.Context(), &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: w.node},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: capacity.DefaultDriverName, NodeID: w.node,
			TopologyKeys: []string{capacity.TopologyKey(capacity.DefaultDriverName)}, Allocatable: &storagev1.VolumeNodeResources{Count: &count}}}}}, metav1.CreateOptions{})
	w.must(err)
	nodes := w.client.CoreV1().Nodes()
	n, err := nodes.Create(w.t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node,
		Labels:      map[string]string{v1.LabelHostname: w.node, capacity.TopologyKey(capacity.DefaultDriverName): w.node},
		Annotations: map[string]string{capacity.PoolsAnnotation(capacity.DefaultDriverName): pools}}}, metav1.CreateOptions{})
	w.must(err)
	n.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("64"), v1.ResourceMemory: resource.MustParse("64Gi"), v1.ResourcePods: resource.MustParse("110")}
	n.Status.Capacity = n.Status.Allocatable
	n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	n, err = nodes.UpdateStatus(w.t.Context(), n, metav1.UpdateOptions{})
	w.must(err)
	n.Spec.Taints = nil // admission has added not-ready, which a controller would take away
	_, err = nodes.Update(w.t.Context(), n, metav1.UpdateOptions{})
	w.must(err)
}

// createPod makes a pod for the node, and a claim with the same name.
func (w *world) createPod(name, class string) {
	w.t.Helper()
	_, err := w.client.CoreV1().PersistentVolumeClaims(namespace).Create(w.t.Context(), &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: quantity(volumeBytes)}}}}, metav1.CreateOptions{})
	w.must(err)
	here := v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{w.node}}}}
	_, err = w.client.CoreV1().Pods(namespace).Create(w.t.Context(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{
		SchedulerName: "csi-local-scheduler", Containers: []v1.Container{{Name: "main", Image: "none"}},
		Affinity: &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{here}}}},
		Volumes:  []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}}}, metav1.CreateOptions{})
	w.must(err)
}

// deletePod takes a pod and its claim away. A volume of the claim stays.
func (w *world) deletePod(name string) {
	w.t.Helper()
	ctx, now := w.t.Context(), int64(0)
	w.must(w.client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	claims := w.client.CoreV1().PersistentVolumeClaims(namespace)
	claim, err := claims.Get(ctx, name, metav1.GetOptions{})
	w.must(err)
	w.must(claims.Delete(ctx, name, metav1.DeleteOptions{}))
	// A controller would take the finalizer away, now that no pod uses the claim.
	_, err = claims.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	w.must(ignoreNotFound(err))
	if claim.Spec.VolumeName == "" {
		return
	}
	patch := fmt.Appendf(nil, `{"status":{"phase":%q}}`, w.phase())
	_, err = w.client.CoreV1().PersistentVolumes().Patch(ctx, claim.Spec.VolumeName, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	w.must(err)
}

// reclaim frees a volume's bytes and takes its object away, in that order.
func (w *world) reclaim(name string) {
	w.t.Helper()
	volumes := w.client.CoreV1().PersistentVolumes()
	w.provisioner.free(w.node, name)
	w.must(volumes.Delete(w.t.Context(), name, metav1.DeleteOptions{}))
	_, err := volumes.Patch(w.t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	w.must(ignoreNotFound(err))
}

// leave takes the pods away, so that the scheduler does not try those that wait
// for ever.
func (w *world) leave() {
	now := int64(0)
	for i := range w.late {
		err := w.client.CoreV1().Pods(namespace).Delete(context.WithoutCancel(w.t.Context()), w.pod("again", i), metav1.DeleteOptions{GracePeriodSeconds: &now})
		if ignoreNotFound(err) != nil {
			w.t.Error(err)
		}
	}
}

// waitRefused waits until the scheduler has said why the pod has no node.
func (w *world) waitRefused(name string) {
	w.t.Helper()
	want := "1 " + schedplugin.ReasonInsufficientCapacity.String()
	w.wait(w.t, "pod "+name+" to be refused", func() (bool, error) {
		p, err := w.pods.Pods(namespace).Get(name)
		if err != nil {
			return false, ignoreNotFound(err)
		}
		if p.Spec.NodeName != "" {
			return false, fmt.Errorf("pod %s is on node %s, which is full", name, p.Spec.NodeName)
		}
		for _, condition := range p.Status.Conditions {
			if condition.Type != v1.PodScheduled || condition.Status != v1.ConditionFalse {
				continue
			}
			refused := strings.Contains(condition.Message, want)
			// The pod may have been seen before its claim.
			if !refused && !strings.Contains(condition.Message, "not found") {
				return false, fmt.Errorf("pod %s: %q, want %q", name, condition.Message, want)
			}
			return refused, nil
		}
		return false, nil
	})
}

// waitScheduled waits until so many of the pods of a kind have a node, and no more.
func (w *world) waitScheduled(kind string, pods, want int) {
	w.t.Helper()
	w.wait(w.t, fmt.Sprintf("%d of the pods %s to be scheduled", want, w.pod(kind, 0)), func() (bool, error) {
		scheduled := 0
		for i := range pods {
			p, err := w.pods.Pods(namespace).Get(w.pod(kind, i))
			if err != nil {
				return false, ignoreNotFound(err)
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
