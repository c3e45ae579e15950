package controller

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// follow has a change of an object arrive in the cache later, and its handler
// called with what the cache had before.
func follow[T any](w *world, kind string, store cache.Indexer, object *T, gone bool, on func(before, now *T)) {
	key, err := cache.MetaNamespaceKeyFunc(object)
	if err != nil {
		panic(err) // the objects of a test have names
	}
	copied, _ := any(any(object).(runtime.Object).DeepCopyObject()).(*T)
	w.lagging[kind] = append(w.lagging[kind], func() {
		before := cached[T](store, key)
		if gone {
			if err := store.Delete(copied); err != nil {
				panic(err)
			}
			on(copied, nil)
			return
		}
		if err := store.Update(copied); err != nil {
			panic(err)
		}
		on(before, copied)
	})
}

func (w *world) nodeChanged(node *metav1.PartialObjectMetadata, gone bool) {
	follow(w, "nodes", w.cachedNodes, node, gone, w.c.onNode)
}

func (w *world) volumeChanged(v *v1.PersistentVolume, gone bool) {
	follow(w, "volumes", w.c.volumes, v, gone, w.c.onVolume)
}

func (w *world) claimChanged(claim *v1.PersistentVolumeClaim, gone bool) {
	follow(w, "claims", w.c.claims, claim, gone, w.c.onClaim)
}

// addNode makes a Node that publishes the pools, or none if pools is "".
func (w *world) addNode(name, pools string, labels map[string]string) {
	node := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if pools != "" {
		node.Annotations = map[string]string{capacity.PoolsAnnotation(testDriver): pools}
	}
	w.stamp(node)
	w.nodes[name] = node
	w.nodeChanged(node, false)
}

func (w *world) removeNode(name string) {
	node := w.nodes[name]
	delete(w.nodes, name)
	w.nodeChanged(node, true)
}

func (w *world) addVolume(v *v1.PersistentVolume) *v1.PersistentVolume {
	w.stamp(v)
	w.volumes[v.Name] = v
	w.volumeChanged(v, false)
	return v
}

// changeVolume changes one and lets it go when it was deleted and no finalizer holds it.
func (w *world) changeVolume(name string, change func(*v1.PersistentVolume)) {
	v := w.volumes[name]
	change(v)
	w.stamp(v)
	gone := v.DeletionTimestamp != nil && len(v.Finalizers) == 0
	if gone {
		delete(w.volumes, name)
	}
	w.volumeChanged(v, gone)
}

func (w *world) addClaim(claim *v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim {
	w.stamp(claim)
	w.claims[claimKey(claim.Namespace, claim.Name)] = claim
	w.claimChanged(claim, false)
	return claim
}

func (w *world) changeClaim(key string, change func(*v1.PersistentVolumeClaim)) {
	claim := w.claims[key]
	change(claim)
	w.stamp(claim)
	gone := claim.DeletionTimestamp != nil && len(claim.Finalizers) == 0
	if gone {
		delete(w.claims, key)
	}
	w.claimChanged(claim, gone)
}

func (w *world) setClass(class *storagev1.StorageClass) {
	w.stamp(class)
	w.classes[class.Name] = class
	follow(w, "classes", w.c.classes, class, false, w.c.onClass)
}

// makeVolume makes a dynamically made PersistentVolume as the provisioner does.
func makeVolume(name, host string) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{provisionedByAnnotation: testDriver},
			Finalizers: []string{provisionerFinalizer},
		},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource:        v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: testDriver, VolumeHandle: name}},
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimDelete,
			StorageClassName:              "ssd",
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: capacity.TopologyKey(testDriver), Operator: v1.NodeSelectorOpIn, Values: []string{host}}},
			}}}},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
	}
}

func makeClaim(name string) *v1.PersistentVolumeClaim {
	class := "ssd"
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", CreationTimestamp: metav1.Unix(0, 0)},
		Spec:       v1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}},
	}
}

// bind binds a volume and a claim to each other; both have UIDs.
func bind(v *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) {
	v.Spec.ClaimRef = &v1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	v.Status.Phase = v1.VolumeBound
	claim.Spec.VolumeName = v.Name
}

func makeClass(policy LostNodePolicy) *storagev1.StorageClass {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "ssd"}, Provisioner: testDriver, VolumeBindingMode: &mode,
		Parameters: map[string]string{capacity.ParamPool: "pool-ssd"},
	}
	if policy != "" {
		class.Annotations = map[string]string{LostNodeAnnotation(testDriver): string(policy)}
	}
	return class
}

func withNode(claim *v1.PersistentVolumeClaim, node string) *v1.PersistentVolumeClaim {
	claim.Annotations = map[string]string{storagehelpers.AnnSelectedNode: node}
	return claim
}

func deleted(at time.Time, finalizers ...string) func(*v1.PersistentVolume) {
	return func(v *v1.PersistentVolume) {
		v.DeletionTimestamp = &metav1.Time{Time: at}
		v.Finalizers = append(slices.Clone(v.Finalizers), finalizers...)
	}
}
