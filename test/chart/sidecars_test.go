package chart

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/driver/drivertest"
	"github.com/csi-local/csi-local/pkg/poolconfig"
	"github.com/csi-local/csi-local/test/testbed"
)

// patience bounds waits for what controllers do.
const patience = time.Minute

// The sidecars as they ship, with the flags and the rights that the manifests give them,
// take volumes through their life, and are refused nothing (ceph/ceph-csi#4800).
func TestSidecars_HaveTheRightsThatTheyNeed(t *testing.T) {
	programs := map[string]string{"csi-provisioner": "", "csi-resizer": ""}
	for name := range programs {
		programs[name] = sidecar(t, name)
	}
	b := newBed(t, testbed.Options{ControllerManager: true})
	b.makeNode(t)
	// The one without the rights for CSIStorageCapacity first.
	for _, folder := range []string{"second-scheduler", "storage-capacity"} {
		t.Run(folder, func(t *testing.T) {
			b.kubectl(t, "apply", "-f", manifestPath(folder))
			node := drivertest.ForTest(t, drivertest.Options{Pools: []poolconfig.Pool{drivertest.ThickPool("pool-ssd", "vgA")}})
			logs := b.startSidecars(t, folder, programs, filepath.Join(node.Dir, "csi.sock"))
			b.volumeLife(t)
			if folder == "storage-capacity" {
				b.capacityObjects(t)
			}
			for name, path := range logs {
				text, err := os.ReadFile(path)
				if err != nil || len(text) == 0 {
					t.Fatalf("%s: %d bytes, %v", path, len(text), err)
				}
				for line := range strings.Lines(string(text)) {
					if strings.Contains(line, "forbidden") || strings.Contains(line, "denied request") {
						t.Errorf("%s: %s", name, line)
					}
				}
			}
		})
	}
}

// sidecar is the program of an image that the tests on a cluster have built (test/cluster/images),
// in the version that ships.
func sidecar(t *testing.T, name string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	_, version, _ := strings.Cut(containerOf(t, "second-scheduler", name).Image, ":")
	archive, program := filepath.Join(cache, "csi-local/images", name+"-"+version+".tar"), filepath.Join(t.TempDir(), name)
	if _, err := os.Stat(archive); err != nil {
		t.Skipf("there is no %s; the tests on a cluster build it (make cluster-up)", archive)
	}
	unpack := exec.CommandContext(t.Context(), "sh", "-c", `tar -xOf "$0" layer.tar | tar -xO "$1" > "$2" && chmod +x "$2"`, archive, name, program)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// makeNode makes what kubelet makes of n1.
func (b bed) makeNode(t *testing.T) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: drivertest.NodeName, Labels: map[string]string{
		"kubernetes.io/os": "linux", corev1.LabelHostname: drivertest.NodeName, capacity.TopologyKey(capacity.DefaultDriverName): drivertest.NodeName,
	}}}
	if _, err := b.admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// startSidecars returns the log of each.
func (b bed) startSidecars(t *testing.T, folder string, programs map[string]string, socket string) map[string]string {
	t.Helper()
	logs := map[string]string{}
	pod := ""
	b.await(t, "the DaemonSet has a pod", func() bool {
		pods, err := b.admin.CoreV1().Pods("kube-system").List(t.Context(), metav1.ListOptions{LabelSelector: componentLabel + "=node"})
		if err != nil || len(pods.Items) == 0 {
			return false
		}
		pod = pods.Items[0].Name
		return true
	})
	for _, s := range []struct{ name, account, node string }{
		{"csi-provisioner", "csi-local-node", drivertest.NodeName}, {"csi-resizer", "csi-local-controller", ""},
	} {
		config, err := b.cluster.ServiceAccount(t.Context(), "kube-system", s.account, s.node)
		if err != nil {
			t.Fatal(err)
		}
		var args []string
		for _, flag := range containerOf(t, folder, s.name).Args {
			name, _, _ := strings.Cut(flag, "=")
			switch name {
			case "--csi-address":
				flag = name + "=" + socket
			case "--http-endpoint":
				continue // a free port is all it would need
			}
			args = append(args, strings.ReplaceAll(flag, "$(POD_NAMESPACE)", "kube-system"))
		}
		// env(1), because each has an environment of its own.
		args = append([]string{"NODE_NAME=" + s.node, "POD_NAME=" + pod, "NAMESPACE=kube-system", programs[s.name], "--kubeconfig=" + writeKubeconfig(t, config)}, args...)
		process, err := b.cluster.StartProcess(s.name+"-"+folder, "/usr/bin/env", args...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := process.Kill(); err != nil {
				t.Error(err)
			}
		})
		logs[s.name] = process.LogPath()
	}
	return logs
}

// containerOf is the container of that name, wherever it is.
func containerOf(t *testing.T, folder, name string) corev1.Container {
	t.Helper()
	for _, pod := range podsOf(t, folder) {
		if i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
			return pod.Spec.Containers[i]
		}
	}
	t.Fatalf("%s: no container %s", folder, name)
	return corev1.Container{}
}

func writeKubeconfig(t *testing.T, from *rest.Config) string {
	t.Helper()
	config, path := clientcmdapi.NewConfig(), filepath.Join(t.TempDir(), "kubeconfig")
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: from.Host, CertificateAuthority: from.CAFile}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: from.BearerToken}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// volumeLife makes a volume, expands and deletes it, and asks for one that has no room.
func (b bed) volumeLife(t *testing.T) {
	t.Helper()
	claims, volumes := b.admin.CoreV1().PersistentVolumeClaims("default"), b.admin.CoreV1().PersistentVolumes()
	volume := ""
	for name, size := range map[string]string{"data": "1Gi", "large": "1Ti"} {
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"volume.kubernetes.io/selected-node": drivertest.NodeName}},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new("local-dynamic-ssd"),
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
			},
		}
		if _, err := claims.Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b.await(t, "the claim is bound", func() bool {
		claim, err := claims.Get(t.Context(), "data", metav1.GetOptions{})
		if err != nil || claim.Status.Phase != corev1.ClaimBound {
			return false
		}
		volume = claim.Spec.VolumeName
		return true
	})
	b.await(t, "the choice of the node without room is taken back", func() bool {
		claim, err := claims.Get(t.Context(), "large", metav1.GetOptions{})
		return err == nil && claim.Annotations["volume.kubernetes.io/selected-node"] == ""
	})
	_, err := claims.Patch(t.Context(), "data", types.MergePatchType, []byte(`{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b.await(t, "the volume is told of its new size, and the claim too", func() bool {
		v, err := volumes.Get(t.Context(), volume, metav1.GetOptions{})
		claim, claimErr := claims.Get(t.Context(), "data", metav1.GetOptions{})
		return err == nil && claimErr == nil && v.Spec.Capacity.Storage().Value() == 2<<30 && len(claim.Status.AllocatedResourceStatuses) > 0
	})
	b.await(t, "both have said so", func() bool {
		events, err := b.admin.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
		said := map[string]bool{}
		for i := range events.Items {
			said[events.Items[i].Reason] = true
		}
		return err == nil && said["ProvisioningSucceeded"] && said["ProvisioningFailed"] && said["FileSystemResizeRequired"]
	})
	for _, name := range []string{"data", "large"} {
		if err := claims.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b.await(t, "the volume is gone", func() bool {
		_, err := volumes.Get(t.Context(), volume, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// capacityObjects waits for the objects of the classes, and for one to go with its class.
func (b bed) capacityObjects(t *testing.T) {
	t.Helper()
	classes := func() map[string]string {
		found := map[string]string{}
		objects, err := b.admin.StorageV1().CSIStorageCapacities("kube-system").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range objects.Items {
			found[objects.Items[i].StorageClassName] = fmt.Sprint(objects.Items[i].OwnerReferences)
		}
		return found
	}
	b.await(t, "the class has its object, owned by the DaemonSet", func() bool { return strings.Contains(classes()["local-dynamic-ssd"], "DaemonSet") })
	if err := b.admin.StorageV1().StorageClasses().Delete(t.Context(), "local-dynamic-ssd", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.await(t, "the object is gone with the class", func() bool { _, there := classes()["local-dynamic-ssd"]; return !there })
}

func (b bed) await(t *testing.T, what string, is func() bool) {
	t.Helper()
	testbed.Eventually(t, patience, what, func() string {
		if is() {
			return ""
		}
		return "not yet"
	})
}
