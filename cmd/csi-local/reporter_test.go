package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
