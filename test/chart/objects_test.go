package chart

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-local/csi-local/internal/doctest"
	"github.com/csi-local/csi-local/pkg/capacity"
)

// only returns the one object of a kind in a way to schedule.
func only[T any](t *testing.T, folder, kind string) T {
	t.Helper()
	text, err := os.ReadFile(manifestPath(folder))
	if err != nil {
		t.Fatal(err)
	}
	var found []T
	for _, object := range documents(t, string(text)) {
		if object["kind"] == kind {
			found = append(found, as[T](t, object))
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s: %d of %s", folder, len(found), kind)
	}
	return found[0]
}

// kubernetes/kubernetes#126921: while the driver of a node restarts, nobody knows how many
// volumes it takes; no pod with our volumes may be placed there then.
func TestCSIDriver(t *testing.T) {
	for folder, mode := range modes() {
		driver := only[storagev1.CSIDriver](t, folder, "CSIDriver")
		policy := storagev1.FileFSGroupPolicy
		want := storagev1.CSIDriverSpec{
			AttachRequired: new(false), PodInfoOnMount: new(true), FSGroupPolicy: &policy, SELinuxMount: new(true),
			VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral},
			// kube-scheduler's own check is on only where ours is not.
			StorageCapacity:                    new(mode == "none"),
			NodeAllocatableUpdatePeriodSeconds: new(int64(60)), PreventPodSchedulingIfMissing: new(true),
		}
		if diff := cmp.Diff(want, driver.Spec); diff != "" || driver.Name != capacity.DefaultDriverName {
			t.Errorf("%s: %s (-want +got)\n%s", folder, driver.Name, diff)
		}
	}
}

// What of the node the pods get is named in the documentation, and only the driver's
// container is privileged.
func TestPods_HaveWhatIsExplained(t *testing.T) {
	doc := doctest.Read(t, root+"/docs/install.md")
	daemonSet := only[appsv1.DaemonSet](t, "second-scheduler", "DaemonSet")
	for _, volume := range daemonSet.Spec.Template.Spec.Volumes {
		if volume.HostPath == nil {
			continue
		}
		path := strings.NewReplacer("/var/lib/kubelet/", "", capacity.DefaultDriverName, "<driver>").Replace(volume.HostPath.Path)
		if !strings.Contains(doc, "`"+path+"`") {
			t.Errorf("docs/install.md does not explain `%s`", path)
		}
	}
	for _, folder := range []string{"second-scheduler", "replace-scheduler", "storage-capacity"} {
		for name, pod := range podsOf(t, folder) {
			for _, container := range pod.Spec.Containers {
				s := container.SecurityContext
				privileged := s.Privileged != nil && *s.Privileged
				if driver := name == "csi-local-node" && container.Name == "csi-local"; privileged != driver {
					t.Errorf("%s: container %s of %s: privileged %v", folder, container.Name, name, privileged)
				}
				if !privileged && (*s.AllowPrivilegeEscalation || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0) {
					t.Errorf("%s: container %s of %s may do more than it needs: %+v", folder, container.Name, name, s)
				}
				if !*s.ReadOnlyRootFilesystem {
					t.Errorf("%s: container %s of %s can write its own files", folder, container.Name, name)
				}
			}
			if pod.Spec.HostNetwork || pod.Spec.HostPID || pod.Spec.HostIPC {
				t.Errorf("%s: %s shares the node's namespaces", folder, name)
			}
		}
	}
}

func podsOf(t *testing.T, folder string) map[string]corev1.PodTemplateSpec {
	t.Helper()
	text, err := os.ReadFile(manifestPath(folder))
	if err != nil {
		t.Fatal(err)
	}
	pods := map[string]corev1.PodTemplateSpec{}
	for _, object := range documents(t, string(text)) {
		switch object["kind"] {
		case "DaemonSet":
			pods[nameOf(object)] = as[appsv1.DaemonSet](t, object).Spec.Template
		case "Deployment":
			pods[nameOf(object)] = as[appsv1.Deployment](t, object).Spec.Template
		}
	}
	return pods
}

// hetznercloud/csi-driver#78: nothing runs while the chart is removed, so nothing can fail
// then for want of rights that are gone already, and no volume is touched.
func TestChart_HasNoHooks(t *testing.T) {
	out, err := template(t)
	if err != nil || strings.Contains(out, "helm.sh/hook") {
		t.Errorf("%v: the chart has hooks", err)
	}
	for _, object := range documents(t, out) {
		if slices.Contains([]string{"Job", "CronJob", "Pod", "CustomResourceDefinition", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}, object["kind"].(string)) {
			t.Errorf("%s %s would outlive the chart, or stand in the way when it is gone", object["kind"], nameOf(object))
		}
	}
}
