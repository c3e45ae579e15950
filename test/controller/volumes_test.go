package controller

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/controller"
)

// finalizer is what external-provisioner puts on the volumes that it makes.
const finalizer = "external-provisioner.volume.kubernetes.io/finalizer"

func (b *bed) addClass(name, provisioner string, change func(*storagev1.StorageClass)) {
	b.t.Helper()
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode,
		Parameters: map[string]string{capacity.ParamPool: "pool-ssd"},
	}
	if change != nil {
		change(class)
	}
	if _, err := b.admin.StorageV1().StorageClasses().Create(b.t.Context(), class, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

func optIn(class *storagev1.StorageClass) {
	class.Annotations = map[string]string{controller.LostNodeAnnotation(driver): string(controller.PolicyDeleteClaim)}
}

func claimSpec(class string) v1.PersistentVolumeClaimSpec {
	return v1.PersistentVolumeClaimSpec{
		StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
	}
}

func (b *bed) addClaim(name, class string, annotations map[string]string) *v1.PersistentVolumeClaim {
	b.t.Helper()
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: claimSpec(class)}
	claim, err := b.admin.CoreV1().PersistentVolumeClaims("default").Create(b.t.Context(), claim, metav1.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return claim
}

func (b *bed) claim(name string) (*v1.PersistentVolumeClaim, error) {
	return b.admin.CoreV1().PersistentVolumeClaims("default").Get(b.t.Context(), name, metav1.GetOptions{})
}

func (b *bed) volume(name string) (*v1.PersistentVolume, error) {
	return b.admin.CoreV1().PersistentVolumes().Get(b.t.Context(), name, metav1.GetOptions{})
}

// provision does what the provisioner on the node does, and waits until the
// controller manager has bound the volume. It returns the volume's name.
func (b *bed) provision(claim *v1.PersistentVolumeClaim, node string) string {
	b.t.Helper()
	class, err := b.admin.StorageV1().StorageClasses().Get(b.t.Context(), *claim.Spec.StorageClassName, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	v := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "pvc-" + string(claim.UID),
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": class.Provisioner},
			Finalizers:  []string{finalizer},
		},
		Spec: v1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes, StorageClassName: class.Name,
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource:        v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: class.Provisioner, VolumeHandle: string(claim.UID)}},
			ClaimRef:                      &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: capacity.TopologyKey(driver), Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
	}
	if _, err := b.admin.CoreV1().PersistentVolumes().Create(b.t.Context(), v, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	b.phase(v.Name, v1.VolumeBound)
	b.eventually("claim "+claim.Name+" is bound", func() string {
		got, err := b.claim(claim.Name)
		if err == nil && got.Status.Phase != v1.ClaimBound {
			return fmt.Sprintf("it is %s", got.Status.Phase)
		}
		return complain(err)
	})
	return v.Name
}

// volumeOn makes a bound claim of that name whose volume is on the node.
func (b *bed) volumeOn(node, claim, class string) (volume string) {
	b.t.Helper()
	return b.provision(b.addClaim(claim, class, nil), node)
}

func (b *bed) phase(volume string, want v1.PersistentVolumePhase) {
	b.t.Helper()
	b.eventually("volume "+volume+" is "+string(want), func() string {
		got, err := b.volume(volume)
		if err == nil && got.Status.Phase != want {
			return fmt.Sprintf("it is %s", got.Status.Phase)
		}
		return complain(err)
	})
}

func (b *bed) deleteClaim(name string) {
	b.t.Helper()
	if err := b.admin.CoreV1().PersistentVolumeClaims("default").Delete(b.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) deleteVolume(name string) {
	b.t.Helper()
	if err := b.admin.CoreV1().PersistentVolumes().Delete(b.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) volumeGoes(name string) {
	b.t.Helper()
	b.eventually("volume "+name+" is gone", func() string {
		v, err := b.volume(name)
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("phase %s, finalizers %q, error %v", v.Status.Phase, v.Finalizers, err)
	})
}
