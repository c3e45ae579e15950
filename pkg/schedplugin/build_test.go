package schedplugin

import (
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// Builders: each test case should read as a sentence.

const (
	testDriver = capacity.DefaultDriverName
	mib        = int64(1) << 20
	gib        = int64(1) << 30
	namespace  = "default"
)

func makeClass(name, pool string, parameters ...string) *storagev1.StorageClass {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: testDriver, VolumeBindingMode: &mode,
		Parameters: map[string]string{capacity.ParamPool: pool}}
	for i := 0; i+1 < len(parameters); i += 2 {
		c.Parameters[parameters[i]] = parameters[i+1]
	}
	return c
}

func immediate(c *storagev1.StorageClass) *storagev1.StorageClass {
	mode := storagev1.VolumeBindingImmediate
	c.VolumeBindingMode = &mode
	return c
}

// makeNode publishes pools: a name and bytes, and so on.
func makeNode(name string, pools ...any) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{},
		Labels: map[string]string{v1.LabelHostname: name, capacity.TopologyKey(testDriver): name}}}
	figures := map[string]int64{}
	for i := 0; i+1 < len(pools); i += 2 {
		figures[pools[i].(string)] = pools[i+1].(int64)
	}
	if len(figures) > 0 {
		value, err := capacity.EncodePools(figures)
		if err != nil {
			panic(err) // a mistake in the test itself
		}
		n.Annotations[capacity.PoolsAnnotation(testDriver)] = value
	}
	return n
}

func annotate(n *v1.Node, value string) *v1.Node {
	n = n.DeepCopy()
	n.Annotations[capacity.PoolsAnnotation(testDriver)] = value
	return n
}

func makeCSINode(name string, count ...int32) *storagev1.CSINode {
	d := storagev1.CSINodeDriver{Name: testDriver, NodeID: name}
	if len(count) > 0 {
		d.Allocatable = &storagev1.VolumeNodeResources{Count: &count[0]}
	}
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{d}}}
}

// reporting adds a capacity report.
func reporting(n *v1.Node, report string) *v1.Node {
	n = n.DeepCopy()
	n.Annotations[capacity.ReportAnnotation(testDriver)] = report
	return n
}

type claimBuilder struct{ *v1.PersistentVolumeClaim }

func makeClaim(name, class string, bytes int64) claimBuilder {
	return claimBuilder{&v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1", Annotations: map[string]string{}},
		Spec: v1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(bytes, resource.BinarySI)}}},
	}}
}

func (c claimBuilder) copied() claimBuilder { return claimBuilder{c.DeepCopy()} }

func (c claimBuilder) selected(node string) claimBuilder {
	c = c.copied()
	c.Annotations[storagehelpers.AnnSelectedNode] = node
	return c.bumped()
}

func (c claimBuilder) provisioner(driver string) claimBuilder {
	c = c.copied()
	c.Annotations[storagehelpers.AnnStorageProvisioner] = driver
	return c.bumped()
}

func (c claimBuilder) unselected() claimBuilder {
	c = c.copied()
	delete(c.Annotations, storagehelpers.AnnSelectedNode)
	return c.bumped()
}

func (c claimBuilder) bound(volume string) claimBuilder {
	c = c.copied()
	c.Spec.VolumeName, c.Status.Phase = volume, v1.ClaimBound
	return c.bumped()
}

func (c claimBuilder) phase(p v1.PersistentVolumeClaimPhase) claimBuilder {
	c = c.copied()
	c.Status.Phase = p
	return c
}

func (c claimBuilder) asking(bytes int64) claimBuilder {
	c = c.copied()
	c.Spec.Resources.Requests[v1.ResourceStorage] = *resource.NewQuantity(bytes, resource.BinarySI)
	return c.bumped()
}

func (c claimBuilder) uid(uid string) claimBuilder {
	c = c.copied()
	c.UID = types.UID(uid)
	return c
}

func block(c claimBuilder) claimBuilder {
	c = c.copied()
	mode := v1.PersistentVolumeBlock
	c.Spec.VolumeMode = &mode
	return c
}

func (c claimBuilder) ownedBy(pod *v1.Pod) claimBuilder {
	c = c.copied()
	controller := true
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: &controller}}
	return c
}

func (c claimBuilder) bumped() claimBuilder {
	version, err := strconv.Atoi(c.ResourceVersion)
	if err != nil {
		panic(err)
	}
	c.ResourceVersion = strconv.Itoa(version + 1)
	return c
}

type volumeBuilder struct{ *v1.PersistentVolume }

func makeVolume(name, pool, node string, bytes int64) volumeBuilder {
	return volumeBuilder{&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1", Labels: map[string]string{}},
		Spec: v1.PersistentVolumeSpec{
			Capacity:    v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(bytes, resource.BinarySI)},
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: testDriver, VolumeHandle: "vg/" + name,
				VolumeAttributes: map[string]string{capacity.ParamPool: pool, capacity.ParamLayout: "linear"}}},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: capacity.TopologyKey(testDriver), Operator: v1.NodeSelectorOpIn, Values: []string{node}}}}}}},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
	}}
}

func (v volumeBuilder) copied() volumeBuilder { return volumeBuilder{v.DeepCopy()} }

func (v volumeBuilder) of(c claimBuilder) volumeBuilder {
	v = v.copied()
	v.Spec.ClaimRef = &v1.ObjectReference{Namespace: c.Namespace, Name: c.Name, UID: c.UID}
	v.Spec.StorageClassName = *c.Spec.StorageClassName
	v.Status.Phase = v1.VolumeBound
	return v
}

func (v volumeBuilder) class(name string) volumeBuilder {
	v = v.copied()
	v.Spec.StorageClassName = name
	return v
}

func (v volumeBuilder) phase(p v1.PersistentVolumePhase) volumeBuilder {
	v = v.copied()
	v.Status.Phase = p
	return v
}

func (v volumeBuilder) attribute(key, value string) volumeBuilder {
	v = v.copied()
	v.Spec.CSI.VolumeAttributes[key] = value
	return v
}

func (v volumeBuilder) byHostname(hostname string) volumeBuilder {
	v = v.copied()
	v.Spec.NodeAffinity = nil
	v.Labels[v1.LabelHostname] = hostname
	return v
}

type podBuilder struct{ *v1.Pod }

func makePod(name string) podBuilder {
	return podBuilder{&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name)}}}
}

func (p podBuilder) copied() podBuilder { return podBuilder{p.DeepCopy()} }

func (p podBuilder) claiming(names ...string) podBuilder {
	p = p.copied()
	for _, name := range names {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "v" + strconv.Itoa(len(p.Spec.Volumes)),
			VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
	return p
}

func (p podBuilder) ephemeral(name string) podBuilder {
	p = p.copied()
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}})
	return p
}

func (p podBuilder) inline(pool string, bytes int64) podBuilder {
	p = p.copied()
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "i" + strconv.Itoa(len(p.Spec.Volumes)), VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{
		Driver: testDriver, VolumeAttributes: map[string]string{capacity.ParamPool: pool, capacity.ParamSize: fmt.Sprint(bytes)}}}})
	return p
}

func (p podBuilder) on(node string) podBuilder {
	p = p.copied()
	p.Spec.NodeName = node
	return p
}
