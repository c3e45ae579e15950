package policy

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/capacity/reporter"
	"github.com/csi-local/csi-local/pkg/orphans/apiserver"
	"github.com/csi-local/csi-local/test/testbed"
)

const (
	driver           = capacity.DefaultDriverName
	namespace, agent = "kube-system", "csi-local-node"
)

// What a pod of the driver on node n1 tries, and what of the refusal a person must
// be able to read; an empty reason stands for an allowed change. Each is tried on
// what the one before has left.
func fenceCases() []fenceCase {
	const nodes, csiNodes = "nodes", "csinodes"
	pools, report := capacity.PoolsAnnotation(driver), capacity.ReportAnnotation(driver)
	return []fenceCase{
		{"own annotations", nodes, "n1", types.MergePatchType, fmt.Sprintf(`{"metadata":{"annotations":{%q:"{}",%q:"x"}}}`, pools, report), ""},
		{"own annotation changed", nodes, "n1", types.MergePatchType, fmt.Sprintf(`{"metadata":{"annotations":{%q:"y"}}}`, pools), ""},
		{"own annotations removed", nodes, "n1", types.MergePatchType, fmt.Sprintf(`{"metadata":{"annotations":{%q:null,%q:null}}}`, pools, report), ""},
		{"own annotation of another node", nodes, "n2", types.MergePatchType, fmt.Sprintf(`{"metadata":{"annotations":{%q:"{}"}}}`, pools), `which is "n1" by its token, and not "n2"`},
		{"another annotation added", nodes, "n1", types.MergePatchType, `{"metadata":{"annotations":{"new":"x"}}}`, "only these annotations of its Node: " + pools + ", " + report},
		{"another annotation changed", nodes, "n1", types.MergePatchType, `{"metadata":{"annotations":{"kept":"x"}}}`, "only these annotations"},
		{"another annotation removed", nodes, "n1", types.MergePatchType, `{"metadata":{"annotations":{"kept":null}}}`, "only these annotations"},
		{"another driver's pools", nodes, "n1", types.MergePatchType, fmt.Sprintf(`{"metadata":{"annotations":{%q:"{}"}}}`, pools+".other"), "only these annotations"},
		{"label", nodes, "n1", types.MergePatchType, `{"metadata":{"labels":{"role":"x"}}}`, "not labels"},
		{"finalizer", nodes, "n1", types.MergePatchType, `{"metadata":{"finalizers":["a.example/b"]}}`, "not labels, finalizers"},
		{"taint", nodes, "n1", types.MergePatchType, `{"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}`, "taints or anything else"},
		{"unschedulable", nodes, "n1", types.MergePatchType, `{"spec":{"unschedulable":true}}`, "taints or anything else"},
		{"own count", csiNodes, "n1", types.StrategicMergePatchType, entry(driver, 5), ""},
		{"own count 0", csiNodes, "n1", types.StrategicMergePatchType, entry(driver, 0), "to 1 or more"},
		{"own count removed", csiNodes, "n1", types.StrategicMergePatchType, fmt.Sprintf(`{"spec":{"drivers":[{"name":%q,"allocatable":null}]}}`, driver), "to 1 or more"},
		{"own count of another node", csiNodes, "n2", types.StrategicMergePatchType, entry(driver, 5), `which is "n1" by its token, and not "n2"`},
		{"another driver's count", csiNodes, "n1", types.StrategicMergePatchType, entry("other.example", 5), "only the allocatable count of the entry " + driver},
		{"another driver removed", csiNodes, "n1", types.StrategicMergePatchType, `{"spec":{"drivers":[{"name":"other.example","$patch":"delete"}]}}`, "only the allocatable count"},
		{"own entry removed", csiNodes, "n1", types.StrategicMergePatchType, fmt.Sprintf(`{"spec":{"drivers":[{"name":%q,"$patch":"delete"}]}}`, driver), "only the allocatable count"},
		{"entry added", csiNodes, "n1", types.StrategicMergePatchType, `{"spec":{"drivers":[{"name":"third.example","nodeID":"n1"}]}}`, "only the allocatable count"},
		{"annotation of the CSINode", csiNodes, "n1", types.MergePatchType, `{"metadata":{"annotations":{"a":"b"}}}`, "may not change labels, annotations"},
	}
}

type fenceCase struct {
	name, resource, object string
	kind                   types.PatchType
	patch, reason          string
}

func entry(name string, count int) string {
	return fmt.Sprintf(`{"spec":{"drivers":[{"name":%q,"allocatable":{"count":%d}}]}}`, name, count)
}

func TestFence(t *testing.T) {
	cluster := testbed.New(t, testbed.Options{})
	admin := newClient(t, cluster.Admin())
	makeNodes(t, admin, "n1", "n2")
	apply(t, cluster)
	config, err := cluster.ServiceAccount(t.Context(), namespace, agent, "n1")
	if err != nil {
		t.Fatal(err)
	}
	client := newClient(t, config)
	waitForFence(t, client)
	for _, tt := range fenceCases() {
		t.Run(tt.name, func(t *testing.T) { check(t, patch(t, client, tt), tt.reason) })
	}
	t.Run("a token that is bound to no node", func(t *testing.T) {
		config, err := cluster.ServiceAccount(t.Context(), namespace, agent, "")
		if err != nil {
			t.Fatal(err)
		}
		check(t, patch(t, newClient(t, config), fenceCases()[0]), `which is "" by its token`)
	})
	t.Run("others are let through", func(t *testing.T) {
		check(t, patch(t, admin, fenceCase{resource: "nodes", object: "n2", kind: types.MergePatchType, patch: `{"metadata":{"labels":{"a":"b"}}}`}), "")
	})
	t.Run("deleting", func(t *testing.T) {
		if err := client.CoreV1().Nodes().Delete(t.Context(), "n1", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("each verb", func(t *testing.T) { checkAccess(t, client) })
	t.Run("the reporter has what it needs", func(t *testing.T) { checkReporter(t, client) })
	t.Run("the keeper of orphans has what it needs", func(t *testing.T) { checkKeeper(t, client) })
	t.Run("events in the namespace of Nodes only", func(t *testing.T) {
		for in, allowed := range map[string]bool{metav1.NamespaceDefault: true, namespace: false} {
			event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{GenerateName: "n1.", Namespace: in}, InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "n1"}}
			if in != metav1.NamespaceDefault {
				event.InvolvedObject.Namespace = in
			}
			if _, err := client.CoreV1().Events(in).Create(t.Context(), event, metav1.CreateOptions{}); (err == nil) != allowed {
				t.Errorf("%s: %v", in, err)
			}
		}
	})
	// The last one: now the fence stands for another account.
	t.Run("other names", func(t *testing.T) { checkOtherNames(t, cluster, admin) })
}

// checkReporter writes with the reporter's own client.
func checkReporter(t *testing.T, client *kubernetes.Clientset) {
	api := reporter.Client{Kubernetes: client, NodeName: "n1", DriverName: driver}
	for kind, change := range map[reporter.Kind]reporter.Change{
		reporter.KindNode: {Set: map[string]string{capacity.PoolsAnnotation(driver): `{"ssd":"1"}`}}, reporter.KindCSINode: {Count: 9},
	} {
		object, err := api.Get(t.Context(), kind)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := api.Write(t.Context(), kind, object, change); err != nil {
			t.Error(err)
		}
	}
	if err := reporter.Cleanup(t.Context(), api, driver); err != nil {
		t.Error(err)
	}
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=n1"}); err != nil {
		t.Error(err)
	}
}

// checkKeeper asks with the keeper's own client, and for more than that needs.
func checkKeeper(t *testing.T, client *kubernetes.Clientset) {
	api := apiserver.Client{Kubernetes: client, NodeName: "n1"}
	for _, cached := range []bool{true, false} {
		if answer, err := api.PersistentVolume(t.Context(), "pvc-1", cached); err != nil || answer.Found {
			t.Errorf("cached %v: %+v, %v", cached, answer, err)
		}
	}
	if uid, err := api.NodeUID(t.Context()); err != nil || uid == "" {
		t.Errorf("UID %q, %v", uid, err)
	}
	volumes := client.CoreV1().PersistentVolumes()
	if _, err := volumes.List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("list: %v", err)
	}
	if err := volumes.Delete(t.Context(), "pvc-1", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("delete: %v", err)
	}
}

func check(t *testing.T, err error, reason string) {
	t.Helper()
	switch {
	case reason == "" && err != nil:
		t.Errorf("refused: %v", err)
	case reason != "" && err == nil:
		t.Error("allowed")
	case reason != "" && (!strings.Contains(err.Error(), reason) || !strings.Contains(err.Error(), "csi-local-fence-")):
		t.Errorf("the reason %q is not in: %v", reason, err)
	}
}

func patch(t *testing.T, client *kubernetes.Clientset, c fenceCase) error {
	t.Helper()
	var err error
	if c.resource == "nodes" {
		_, err = client.CoreV1().Nodes().Patch(t.Context(), c.object, c.kind, []byte(c.patch), metav1.PatchOptions{})
	} else {
		_, err = client.StorageV1().CSINodes().Patch(t.Context(), c.object, c.kind, []byte(c.patch), metav1.PatchOptions{})
	}
	return err
}

// apply is what an administrator does.
func apply(t *testing.T, cluster *testbed.Cluster) {
	t.Helper()
	kubectlApply(t, cluster, nil, filepath.Join("..", "..", "deploy", "policy"))
}

// kubectlApply applies what is in a file, a folder, or for "-" what it reads.
func kubectlApply(t *testing.T, cluster *testbed.Cluster, stdin io.Reader, what string) {
	t.Helper()
	kubectl, err := testbed.Kubectl.Path(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), kubectl, "--kubeconfig", cluster.KubeconfigPath(), "--cache-dir", t.TempDir(),
		"apply", "-f", what)
	command.Stdin = stdin
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, output)
	}
	if strings.Contains(string(output), "Warning") {
		t.Errorf("the API server has something to say:\n%s", output)
	}
}

// waitForFence returns when both policies are in force, which takes the API server a moment.
func waitForFence(t *testing.T, client *kubernetes.Clientset) {
	t.Helper()
	asked := 0
	testbed.Eventually(t, 30*time.Second, "the fence stands", func() string {
		// Another label each time: one that is there already would change nothing.
		label := fmt.Sprintf(`{"metadata":{"labels":{"probe":"%d"}}}`, asked)
		asked++
		nodes := patch(t, client, fenceCase{resource: "nodes", object: "n1", kind: types.MergePatchType, patch: label})
		csiNodes := patch(t, client, fenceCase{resource: "csinodes", object: "n1", kind: types.MergePatchType, patch: label})
		if nodes != nil && csiNodes != nil && strings.Contains(nodes.Error(), "fence") && strings.Contains(csiNodes.Error(), "fence") {
			return ""
		}
		return fmt.Sprintf("%v, %v", nodes, csiNodes)
	})
}

func newClient(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func makeNodes(t *testing.T, admin *kubernetes.Clientset, names ...string) {
	t.Helper()
	for _, name := range names {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"kept": "as it is"}}}
		if _, err := admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		csiNode := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, d := range []string{driver, "other.example"} {
			csiNode.Spec.Drivers = append(csiNode.Spec.Drivers, storagev1.CSINodeDriver{
				Name: d, NodeID: name, TopologyKeys: []string{capacity.TopologyKey(driver)}, Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(7))},
			})
		}
		if _, err := admin.StorageV1().CSINodes().Create(t.Context(), csiNode, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
