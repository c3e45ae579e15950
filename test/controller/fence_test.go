package controller

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// checkFence tries what the controller's account may not do. What it may do, the
// controller does in the other tests.
func (b *bed) checkFence(*process) {
	t := b.t
	volume, others := b.volumeOn("n4", "fenced", "ssd"), b.volumeOn("n4", "fenced-others", "others")
	b.addClaim("unbound", "ssd", map[string]string{selectedNode: "n4"})
	account := b.client(b.serviceAccount())
	volumes, claims := account.CoreV1().PersistentVolumes(), account.CoreV1().PersistentVolumeClaims("default")
	patchVolume := func(name, patch string) error {
		_, err := volumes.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	patchClaim := func(name, patch string) error {
		_, err := claims.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	b.eventually("the fence stands", func() string {
		for _, err := range []error{patchVolume(others, `{"metadata":{"labels":{"a":"b"}}}`), patchClaim("fenced", `{"metadata":{"labels":{"a":"b"}}}`)} {
			if err == nil || !strings.Contains(err.Error(), "csi-local-fence-controller-") {
				return "a label was allowed, or refused by somebody else"
			}
		}
		return ""
	})
	b.checkResizer(account, volume, "fenced")
	for name, tt := range map[string]struct {
		err    error
		reason string
	}{
		"capacity and policy":        {patchVolume(volume, `{"spec":{"capacity":{"storage":"9Ti"},"persistentVolumeReclaimPolicy":"Retain"}}`), "but its capacity"},
		"capacity and a finalizer":   {patchVolume(volume, `{"spec":{"capacity":{"storage":"9Ti"}},"metadata":{"finalizers":null}}`), "take only the finalizer"},
		"capacity and an annotation": {patchVolume(volume, `{"spec":{"capacity":{"storage":"9Ti"}},"metadata":{"annotations":{"a":"b"}}}`), "its finalizers and its capacity"},
		"another driver's volume":    {patchVolume(others, `{"metadata":{"finalizers":null}}`), "only PersistentVolumes of " + driver},
		"finalizer of a bound one":   {patchVolume(volume, `{"metadata":{"finalizers":null}}`), "take only the finalizer"},
		"reclaim policy":             {patchVolume(volume, `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`), "take only the finalizer"},
		"deletion of a bound volume": {volumes.Delete(t.Context(), volume, metav1.DeleteOptions{}), "only PersistentVolumes that are Released"},
		"deletion of an unbound one": {claims.Delete(t.Context(), "unbound", metav1.DeleteOptions{}), "only claims that are bound"},
		"another annotation":         {patchClaim("unbound", `{"metadata":{"annotations":{"a":"b"}}}`), "only remove the annotation"},
		"another node":               {patchClaim("unbound", `{"metadata":{"annotations":{"`+selectedNode+`":"n1"}}}`), "only remove the annotation"},
		"the node of a bound claim":  {patchClaim("fenced", `{"metadata":{"finalizers":null}}`), "csi-local controller may"},
	} {
		if tt.err == nil || !strings.Contains(tt.err.Error(), tt.reason) {
			t.Errorf("%s: the reason %q is not in: %v", name, tt.reason, tt.err)
		}
	}
	_, nodeErr := account.CoreV1().Nodes().Patch(t.Context(), "n4", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	_, podErr := account.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	_, secretErr := account.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{})
	_, leaseErr := account.CoordinationV1().Leases(namespace).Get(t.Context(), "kube-scheduler", metav1.GetOptions{})
	for what, err := range map[string]error{"nodes": nodeErr, "pods": podErr, "secrets": secretErr, "others' leases": leaseErr} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	b.phase(volume, v1.VolumeBound)
}

// checkResizer does what csi-resizer does, which has the controller's account.
func (b *bed) checkResizer(account kubernetes.Interface, volume, claim string) {
	t := b.t
	const note = `"metadata":{"annotations":{"volume.alpha.kubernetes.io/pre-resize-capacity":`
	patch := func(patch string) error {
		_, err := account.CoreV1().PersistentVolumes().Patch(t.Context(), volume, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	for _, step := range []struct {
		what, patch, refused string
	}{
		{"grow", `{"spec":{"capacity":{"storage":"5Ti"}},` + note + `"1Gi"}}}`, ""},
		{"take back what the node has no room for", `{"spec":{"capacity":{"storage":"2Gi"}}}`, ""},
		{"forget the size before, and something else", `{` + note + `null,"a":"b"}}}`, "its finalizers and its capacity"},
		{"forget the size before", `{` + note + `null}}}`, ""},
		{"take back afterwards, and note it", `{"spec":{"capacity":{"storage":"1Gi"}},` + note + `"1Gi"}}}`, ""},
		{"write what is there", `{}`, ""},
	} {
		if err := patch(step.patch); (err == nil) != (step.refused == "") || err != nil && !strings.Contains(err.Error(), step.refused) {
			t.Errorf("%s: want refused %q: %v", step.what, step.refused, err)
		}
	}
	claims := account.CoreV1().PersistentVolumeClaims("default")
	status := `{"status":{"conditions":[{"type":"FileSystemResizePending","status":"True"}]}}`
	if _, err := claims.Patch(t.Context(), claim, types.StrategicMergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
		t.Error(err)
	}
	more := `{"metadata":{"annotations":{"a":"b"}}}`
	if _, err := claims.Patch(t.Context(), claim, types.StrategicMergePatchType, []byte(more), metav1.PatchOptions{}, "status"); err == nil || !strings.Contains(err.Error(), "only remove the annotation") {
		t.Errorf("an annotation by way of the status: %v", err)
	}
}
