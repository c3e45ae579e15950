package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/internal/doctest"
	"github.com/csi-local/csi-local/pkg/capacity"
)

// The page for users says which event a claim with wrong input gets.
func TestWrongInput_TheEventsAreDocumented(t *testing.T) {
	immediate := storagev1.VolumeBindingImmediate
	got := map[string]string{}
	for input, wrong := range map[string]func(*storagev1.StorageClass, *v1.PersistentVolumeClaim){
		"class with `volumeBindingMode: Immediate`, or none": func(c *storagev1.StorageClass, _ *v1.PersistentVolumeClaim) { c.VolumeBindingMode = &immediate },
		"class with a misspelt parameter, `strips`": func(c *storagev1.StorageClass, _ *v1.PersistentVolumeClaim) {
			c.Parameters["strips"] = "2"
		},
		"class with a value that there is not, `layout: raid5`": func(c *storagev1.StorageClass, _ *v1.PersistentVolumeClaim) {
			c.Parameters[capacity.ParamLayout] = "raid5"
		},
		"class with a pool that no node has, `pool-sdd`": func(c *storagev1.StorageClass, _ *v1.PersistentVolumeClaim) {
			c.Parameters[capacity.ParamPool] = "pool-sdd"
		},
		"claim with access mode `ReadWriteMany`": func(_ *storagev1.StorageClass, claim *v1.PersistentVolumeClaim) {
			claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
		},
		"claim with a `selector`": func(_ *storagev1.StorageClass, claim *v1.PersistentVolumeClaim) {
			claim.Spec.Selector = &metav1.LabelSelector{}
		},
	} {
		book := newNodeBook(testDriver)
		book.set(&metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{capacity.PoolsAnnotation(testDriver): `{"pool-hdd":"1","pool-ssd":"1"}`}})
		class, claim := makeClass(""), makeClaim("data")
		wrong(class, claim)
		for _, found := range hopeless(claim, class, book) {
			got[input] += found.reason + ": " + found.message
		}
	}
	doc := doctest.Read(t, "../../docs/wrong-input.md")
	if diff := cmp.Diff(doctest.Column(t, doc, "## csi-local controller, in an event on the claim", 1), got); diff != "" {
		t.Errorf("(-docs +controller)\n%s", diff)
	}
}
