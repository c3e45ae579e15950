package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/test/cluster"
	"github.com/csi-local/csi-local/test/cluster/installed"
	"github.com/csi-local/csi-local/test/testbed"
)

const (
	driver    = installed.Driver
	scheduler = installed.Scheduler
	class     = installed.Class
	pool      = installed.Pool
	group     = installed.VolumeGroup
	mib       = int64(1) << 20
)

// patience bounds what a healthy cluster does within seconds; two processors that share
// everything can be slow.
const patience = 5 * time.Minute

// bed is the cluster, and the namespace of one test.
type bed struct {
	*cluster.Cluster
	namespace string
}

// run is one test, in a namespace that is gone afterwards, together with all volumes.
func (b bed) run(t *testing.T, name string, test func(t *testing.T, b bed)) (ok bool) {
	return t.Run(name, func(t *testing.T) {
		b.namespace = "e2e-" + name
		b.Must(t, "create", "namespace", b.namespace)
		test(t, b)
		b.deleteAll(t)
		b.Must(t, "delete", "namespace", b.namespace, "--timeout", patience.String())
		b.wantNoVolumes(t)
		// After the newcomer there is no pod of csi-local. From the kills on there were API
		// servers that have forbidden what they had not read about yet.
		if !slices.Contains([]string{"newcomer", "kills", "doctor", "uninstall"}, name) {
			b.wantNothingForbidden(t)
		}
	})
}

// deleteAll deletes what has volumes: a namespace with pods in it would be looked at again
// after many seconds only.
func (b bed) deleteAll(t *testing.T) {
	t.Helper()
	if _, err := b.Kubectl(t.Context(), "-n", b.namespace, "delete", "statefulset,pod,persistentvolumeclaim", "--all", "--timeout", patience.String()); err != nil {
		b.logPods(t)
		t.Fatal(err)
	}
}

// logPods shows what is left of the namespace's pods, and what their kubelets said of them last.
func (b bed) logPods(t *testing.T) {
	t.Helper()
	pods, err := b.Client().CoreV1().Pods(b.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		log, err := os.ReadFile(filepath.Join(b.LogDir(), pod.Spec.NodeName+"-kubelet.log"))
		if err != nil {
			t.Fatal(err)
		}
		said := slices.DeleteFunc(strings.Split(string(log), "\n"), func(line string) bool { return !strings.Contains(line, string(pod.UID)) })
		t.Logf("pod %s is still on %s: %+v\n%s", pod.Name, pod.Spec.NodeName, pod.Status.ContainerStatuses,
			strings.Join(said[max(0, len(said)-25):], "\n"))
	}
}

// wantNothingForbidden looks into the logs of all containers of csi-local: each has the
// rights that it needs.
func (b bed) wantNothingForbidden(t *testing.T) {
	t.Helper()
	pods, err := installed.Pods(t.Context(), b.Cluster, "")
	if err != nil || len(pods) == 0 {
		t.Fatalf("%d pods, error %v", len(pods), err)
	}
	for _, pod := range pods {
		for _, container := range pod.Spec.Containers {
			log, err := b.Client().CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container.Name}).DoRaw(t.Context())
			if err != nil && pod.DeletionTimestamp == nil {
				t.Error(err)
			}
			for line := range strings.Lines(string(log)) {
				if strings.Contains(strings.ToLower(line), "forbidden") {
					t.Errorf("%s in %s: %s", container.Name, pod.Name, line)
				}
			}
		}
	}
}

// driverPods are those of the DaemonSet.
func (b bed) driverPods(t *testing.T) []corev1.Pod {
	t.Helper()
	pods, err := installed.Pods(t.Context(), b.Cluster, installed.ComponentNode)
	if err != nil {
		t.Fatal(err)
	}
	return pods
}

// wantNoVolumes waits until neither the cluster nor a disk has a volume of ours.
func (b bed) wantNoVolumes(t *testing.T) {
	t.Helper()
	testbed.Eventually(t, patience, "no volumes", func() string {
		volumes, err := b.Client().CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
		if err != nil || len(volumes.Items) > 0 {
			return fmt.Sprintf("%d PersistentVolumes, error %v", len(volumes.Items), err)
		}
		for _, n := range b.Nodes() {
			if left := b.logicalVolumes(t, n); len(left) > 0 {
				return fmt.Sprintf("%s has %v", n.Name(), left)
			}
		}
		return ""
	})
}

// logicalVolumes are those of our volume group on a node.
func (b bed) logicalVolumes(t *testing.T, n *cluster.Node) []string {
	t.Helper()
	names, err := installed.LogicalVolumes(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// apply makes objects of the test's namespace.
func (b bed) apply(t *testing.T, yaml ...string) {
	t.Helper()
	if _, err := b.KubectlInput(t.Context(), strings.Join(yaml, "\n---\n"), "-n", b.namespace, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// kubectl runs it in the test's namespace.
func (b bed) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return b.Must(t, append([]string{"-n", b.namespace}, args...)...)
}

// exec runs a shell's script in a pod.
func (b bed) exec(ctx context.Context, pod, script string) (string, error) {
	return b.Kubectl(ctx, "-n", b.namespace, "exec", pod, "--", "sh", "-c", script)
}

// mustExec ends the test if the script fails.
func (b bed) mustExec(t *testing.T, pod, script string) string {
	t.Helper()
	out, err := b.exec(t.Context(), pod, script)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// wantReady waits for pods, and says of one that is not Ready what its events say.
func (b bed) wantReady(t *testing.T, pods ...string) {
	t.Helper()
	for _, name := range pods {
		testbed.Eventually(t, patience, "pod "+name, func() string {
			pod, err := b.Client().CoreV1().Pods(b.namespace).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if cluster.PodReady(pod) {
				return ""
			}
			return fmt.Sprintf("%s: %s", pod.Status.Phase, strings.Join(b.events(t, name), "\n"))
		})
	}
}

// events are those of an object of that name, as "Reason: message".
func (b bed) events(t *testing.T, object string) []string {
	t.Helper()
	list, err := b.Client().CoreV1().Events(b.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + object})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range list.Items {
		all = append(all, e.Reason+": "+e.Message)
	}
	return all
}

// wantEvent waits for an event of an object that has all the words.
func (b bed) wantEvent(t *testing.T, object string, words ...string) {
	t.Helper()
	testbed.Eventually(t, patience, "event of "+object, func() string {
		all := b.events(t, object)
		for _, event := range all {
			if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(event, word) }) {
				return ""
			}
		}
		return fmt.Sprintf("none says %q:\n%s", words, strings.Join(all, "\n"))
	})
}

// wantNoFailedCreate looks for volumes that were refused since the test began.
func (b bed) wantNoFailedCreate(t *testing.T) {
	t.Helper()
	list, err := b.Client().CoreV1().Events(b.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=ProvisioningFailed"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		t.Errorf("%s: %s", e.InvolvedObject.Name, e.Message)
	}
}

// published is how many bytes volumes of the pool may take on a node, those that exist
// included: its annotation.
func (b bed) published(t *testing.T, n *cluster.Node) int64 {
	t.Helper()
	bytes, err := installed.PublishedBytes(t.Context(), b.Cluster, n)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// csiNode is the node's CSINode.
func (b bed) csiNode(t *testing.T, n *cluster.Node) *storagev1.CSINode {
	t.Helper()
	node, err := b.Client().StorageV1().CSINodes().Get(t.Context(), n.Name(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// allocatable is how many volumes the node's CSINode promises; -1 if it has no entry.
func (b bed) allocatable(t *testing.T, n *cluster.Node) int32 {
	t.Helper()
	count, err := installed.VolumeCount(t.Context(), b.Cluster, n)
	if err != nil {
		t.Fatal(err)
	}
	return count
}

// nodeOf is where a pod was placed.
func (b bed) nodeOf(t *testing.T, pod string) *cluster.Node {
	t.Helper()
	name := b.kubectl(t, "get", "pod", pod, "-o", "jsonpath={.spec.nodeName}")
	for _, n := range b.Nodes() {
		if n.Name() == name {
			return n
		}
	}
	t.Fatalf("pod %s is on node %q", pod, name)
	return nil
}
