package testbed

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func client(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCluster_Life(t *testing.T) {
	ctx := t.Context()
	start := time.Now()
	c, err := Start(ctx, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ready after %v", time.Since(start).Round(time.Millisecond))
	defer func() {
		processes := []*Process{c.etcd, c.apiServer}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
		for _, p := range processes {
			if err := p.cmd.Process.Signal(os.Interrupt); !errors.Is(err, os.ErrProcessDone) {
				t.Errorf("%s still runs: %v", p.name, err)
			}
		}
		if _, err := os.Stat(c.dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", c.dir, err)
		}
	}()
	admin := client(t, c.Admin())
	version, err := admin.Discovery().ServerVersion()
	if err != nil || version.GitVersion != Version {
		t.Errorf("version %v, error %v", version, err)
	}
	for _, name := range []string{"n1", "n2"} {
		if _, err := admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("kubelet changes its own Node only", func(t *testing.T) {
		patch := []byte(`{"metadata":{"labels":{"a":"b"}}}`)
		nodes := client(t, c.Kubelet("n1")).CoreV1().Nodes()
		if _, err := nodes.Patch(ctx, "n1", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
		if _, err := nodes.Patch(ctx, "n2", types.MergePatchType, patch, metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("n1 changes n2: %v", err)
		}
	})
	t.Run("a token knows its node", func(t *testing.T) { checkToken(t, c, admin) })
	t.Run("the audit log counts", func(t *testing.T) { checkAudit(t, c) })
	t.Run("a restarted API server has everything", func(t *testing.T) {
		if err := c.StopAPIServer(); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{}); err == nil {
			t.Error("it answers though it was killed")
		}
		if err := c.StartAPIServer(ctx); err != nil {
			t.Fatal(err)
		}
		if node, err := admin.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{}); err != nil || node.Labels["a"] != "b" {
			t.Errorf("node %v, error %v", node, err)
		}
		checkAudit(t, c)
	})
}

// checkToken insists on a real token: the name of its node stands in it, and it
// may do nothing that was not allowed.
func checkToken(t *testing.T, c *Cluster, admin *kubernetes.Clientset) {
	ctx := t.Context()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "agent", Namespace: "default"}}
	if _, err := admin.CoreV1().ServiceAccounts("default").Create(ctx, account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config, err := c.ServiceAccount(ctx, "default", "agent", "n1")
	if err != nil {
		t.Fatal(err)
	}
	agent := client(t, config)
	who, err := agent.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := who.Status.UserInfo.Extra["authentication.kubernetes.io/node-name"]; len(got) != 1 || got[0] != "n1" {
		t.Errorf("the token is of node %q", got)
	}
	if _, err := agent.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("it reads Nodes: %v", err)
	}
}

// checkAudit looks for the two writes of n1's kubelet, and for what they knew.
func checkAudit(t *testing.T, c *Cluster) {
	t.Helper()
	requests, err := c.Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range requests {
		if r.User != "system:node:n1" {
			continue
		}
		if !r.Write() || r.Resource != "nodes" || r.Received.IsZero() || !strings.HasPrefix(r.Agent, "testbed.test/") {
			t.Errorf("request %+v", r)
		}
		if (r.Version != "") != (r.Code == 200) || r.Precondition != "" {
			t.Errorf("versions of %+v", r)
		}
		got = append(got, r.Verb+" "+r.Name)
	}
	if strings.Join(got, ", ") != "patch n1, patch n2" {
		t.Errorf("kubelet's requests: %q", got)
	}
}

func TestCluster_StopKeepingLogs(t *testing.T) {
	c, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.StopKeepingLogs(); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "logs" {
		t.Errorf("left %v, error %v", entries, err)
	}
	if err := os.RemoveAll(c.dir); err != nil {
		t.Error(err)
	}
}

// A folder that lacks a program is said to lack it, and nothing is built into it.
func TestProgram_PathInAnotherFolder(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KUBE_BIN_DIR", dir)
	if _, err := APIServer.Path(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "KUBE_BIN_DIR is set") {
		t.Errorf("error %v", err)
	}
	want := filepath.Join(dir, "etcd")
	if err := os.WriteFile(want, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := Etcd.Path(t.Context(), io.Discard); err != nil || got != want {
		t.Errorf("path %q, error %v", got, err)
	}
}

// Only a controller manager makes the service account "default", and without it
// no pod is admitted.
func TestCluster_ControllerManager(t *testing.T) {
	c := New(t, Options{ControllerManager: true})
	admin := client(t, c.Admin())
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	timeout := time.NewTimer(60 * time.Second)
	defer timeout.Stop()
	for {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
		_, err := admin.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
		if err == nil {
			return
		}
		select {
		case <-timeout.C:
			t.Fatalf("no pod is admitted: %v", err)
		case <-c.manager.exited:
			t.Fatal(c.manager.Ended())
		case <-tick.C:
		}
	}
}
