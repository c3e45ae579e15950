package storm

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

func testClaim(name string, bytes int64) *v1.PersistentVolumeClaim {
	class := classNames()[0]
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), Annotations: map[string]string{
			storagehelpers.AnnSelectedNode: "n1", storagehelpers.AnnStorageProvisioner: driverName}},
		Spec: v1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: quantity(bytes)}}},
	}
}

// The figures of a storm are what this counts, so a refusal must not be lost, nor
// a volume be made twice.
func TestProvisioner_Provision(t *testing.T) {
	fits, again, tooLarge, others, unready := testClaim("fits", 3*gib), testClaim("fits", 3*gib), testClaim("too-large", 2*gib), testClaim("others", gib), testClaim("unready", gib)
	others.Annotations[storagehelpers.AnnSelectedNode] = "n2"
	delete(unready.Annotations, storagehelpers.AnnStorageProvisioner)
	client := fake.NewClientset(fits.DeepCopy(), tooLarge.DeepCopy(), others.DeepCopy(), unready.DeepCopy())
	claims := cache.NewStore(cache.MetaNamespaceKeyFunc)
	p := newProvisioner("n1", client, newPool(4*gib), claims, Options{CreateLatency: time.Nanosecond}, 0)
	for _, c := range []*v1.PersistentVolumeClaim{fits, again, tooLarge, others, unready} {
		if err := claims.Add(c); err != nil {
			t.Fatal(err)
		}
		if err := p.provision(t.Context(), namespace+"/"+c.Name); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
	if volumes, refused := p.pool.counts(); volumes != 1 || refused != 1 {
		t.Errorf("%d volumes, %d refusals, want 1 and 1", volumes, refused)
	}
	if p.pool.freeBytes() != gib {
		t.Errorf("%d bytes free, want 1 GiB", p.pool.freeBytes())
	}
	volume, err := client.CoreV1().PersistentVolumes().Get(t.Context(), "pvc-fits", metav1.GetOptions{})
	if err != nil || volume.Spec.ClaimRef.UID != "fits" || volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] != "n1" {
		t.Errorf("volume %+v, error %v", volume, err)
	}
	if _, err := client.CoreV1().PersistentVolumes().Get(t.Context(), "pvc-too-large", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the refused volume: error %v", err)
	}
	for name, want := range map[string]string{"fits": "n1", "too-large": "", "others": "n2", "unready": "n1"} {
		c, err := client.CoreV1().PersistentVolumeClaims(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || c.Annotations[storagehelpers.AnnSelectedNode] != want {
			t.Errorf("claim %s: node %q, want %q, error %v", name, c.Annotations[storagehelpers.AnnSelectedNode], want, err)
		}
	}
	// The cache shows the refusal at once, so the old claim is not tried once more.
	if err := p.provision(t.Context(), namespace+"/too-large"); err != nil {
		t.Error(err)
	}
	if _, refused := p.pool.counts(); refused != 1 {
		t.Errorf("%d refusals after the second look, want 1", refused)
	}
}

// One volume after the other, each as long as it takes; what does not fit is
// refused at once.
func TestPool_OneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool, start := newPool(10*gib), time.Now()
		done := make(chan time.Duration)
		for _, name := range []string{"a", "b", "a"} {
			go func() {
				if made, err := pool.create(t.Context(), name, gib+1, time.Second); !made || err != nil {
					t.Errorf("%s: made %t, error %v", name, made, err)
				}
				done <- time.Since(start)
			}()
		}
		last := time.Duration(0)
		for range 3 {
			last = max(last, <-done)
		}
		if last != 2*time.Second {
			t.Errorf("two volumes took %v, want 2 s", last)
		}
		if want := 8*gib - 2*extentBytes; pool.freeBytes() != want {
			t.Errorf("%d bytes free, want %d: rounded to extents", pool.freeBytes(), want)
		}
		if made, err := pool.create(t.Context(), "c", 8*gib, time.Second); made || err != nil || time.Since(start) != last {
			t.Errorf("no room: made %t, error %v after %v", made, err, time.Since(start))
		}
	})
}
