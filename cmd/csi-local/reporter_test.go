package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubeconfigFor writes a file that leads to the server.
func kubeconfigFor(t *testing.T, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "` + url + `"}}]
users: [{name: u, user: {}}]
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The command needs neither pools nor LVM: they may be gone by then.
func TestRun_CleanupRemovesTheAnnotations(t *testing.T) {
	var patch map[string]any
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/nodes/n1" {
			t.Errorf("request for %s", r.URL.Path)
		}
		if r.Method == http.MethodPatch {
			body, err := io.ReadAll(r.Body)
			if err != nil || json.Unmarshal(body, &patch) != nil {
				t.Errorf("patch %s, %v", body, err)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		err := json.NewEncoder(w).Encode(&v1.Node{
			TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Name: "n1", ResourceVersion: "5", Annotations: map[string]string{
				"csi.volume.kubernetes.io/my.driver": "{}", "my.driver/capacity-report": "{}", "csi.volume.kubernetes.io/other": "{}",
			}},
		})
		if err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{
		"node", "--cleanup", "--node-name=n1", "--driver-name=my.driver", "--pools-file=/nosuch", "--kubeconfig=" + kubeconfigFor(t, server.URL),
	}, &stdout, &stderr)
	if code != exitOK || !strings.Contains(stdout.String(), "no annotations of my.driver") {
		t.Fatalf("exit %d\n%s%s", code, &stdout, &stderr)
	}
	metadata, _ := patch["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if len(annotations) != 2 || metadata["resourceVersion"] != "5" {
		t.Errorf("patch %v", patch)
	}
	for key, value := range annotations {
		if value != nil || !strings.Contains(key, "my.driver") {
			t.Errorf("annotation %s: %v", key, value)
		}
	}
}

func TestRun_CleanupWithoutAPIServer(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"node", "--cleanup", "--node-name=n1"}, &stdout, &stderr); code != exitFailed || !strings.Contains(stderr.String(), "--kubeconfig") {
		t.Errorf("exit %d\n%s", code, &stderr)
	}
}

// nodeWith makes a node on a machine without LVM.
func nodeWith(t *testing.T, args ...string) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "csi") // short, for the socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	pools := filepath.Join(dir, "pools.yaml")
	if err := os.WriteFile(pools, []byte(onePool), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, err := parse(t, append(args, "--pools-file="+pools, "--kubelet-dir="+dir, "--endpoint=unix://"+dir+"/s", "--lvm-run-dir="+dir+"/lvm",
		"--lvm-lock-dir="+dir+"/lock", "--lvm-path="+dir+"/no-lvm")...)
	if err != nil {
		t.Fatal(err)
	}
	n, err := newNode(opts, "v0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func TestNode_PublishesOnlyToAnAPIServerThatItKnows(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	kubeconfig := "--kubeconfig=" + kubeconfigFor(t, "http://127.0.0.1:1")
	for _, tt := range []struct {
		args []string
		want bool
	}{{nil, false}, {[]string{kubeconfig}, true}, {[]string{kubeconfig, "--publish=false"}, false}} {
		n := nodeWith(t, tt.args...)
		if got := n.reporter != nil; got != tt.want {
			t.Errorf("%v: reporter %v, want %v", tt.args, got, tt.want)
		}
		n.capacityFailed() // must not need a reporter
	}
}

// An API server that cannot be reached keeps the node neither from serving nor from stopping.
func TestNode_LifeWithoutAPIServer(t *testing.T) {
	n := nodeWith(t, "--kubeconfig="+kubeconfigFor(t, "http://127.0.0.1:1"), "--register=false")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.run(ctx) }()
	conn, err := grpc.NewClient(strings.Replace(n.opts.socketEndpoint(), "unix://", "unix:", 1), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := csi.NewIdentityClient(conn).GetPluginInfo(t.Context(), &csi.GetPluginInfoRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
}
