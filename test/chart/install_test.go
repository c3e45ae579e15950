package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/internal/doctest"
	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/test/testbed"
)

// The commands of the guide, as they stand there, and in their order. What they install is
// gone afterwards: nothing in the cluster speaks of csi-local any more.
func TestInstallGuide_ItsCommands(t *testing.T) {
	b := newBed(t, testbed.Options{ControllerManager: true})
	b.makeTraces(t)
	tools := b.tools(t)
	ran := 0
	for _, command := range doctest.Shell(doctest.Read(t, root+"/docs/install.md")) {
		switch {
		case strings.HasPrefix(command, "vgcreate "):
			continue // for the nodes' disks
		case strings.HasPrefix(command, "kubectl apply -k "):
			command += " --dry-run=server" // the other way to install
		}
		shell := exec.CommandContext(t.Context(), "sh", "-c", command)
		shell.Dir = root
		shell.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"), "KUBECONFIG="+b.cluster.KubeconfigPath(), "HOME="+b.cache)
		out, err := shell.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		ran++
		switch {
		case strings.HasPrefix(command, "kubectl get nodes ") && !strings.Contains(string(out), `{"pool-ssd":"1"}`):
			t.Errorf("%s:\n%s", command, out)
		case strings.HasPrefix(command, "helm install "):
			b.await(t, "the pods of the chart are made", func() bool {
				pods, err := b.admin.CoreV1().Pods("kube-system").List(t.Context(), metav1.ListOptions{})
				return err == nil && len(pods.Items) >= 4
			})
		}
	}
	if ran != 8 {
		t.Errorf("%d commands were run", ran)
	}
	b.checkNothingIsLeft(t)
}

// makeTraces makes what csi-local's processes would make: nothing runs here. The node takes
// no pods, since nobody would end them.
func (b bed) makeTraces(t *testing.T) {
	t.Helper()
	driver := capacity.DefaultDriverName
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{
		capacity.PoolsAnnotation(driver): `{"pool-ssd":"1"}`, capacity.ReportAnnotation(driver): "{}",
	}}}
	if _, err := b.admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for right := range documentedRights(t) {
		_, name, _ := strings.Cut(right.resource, " ")
		if !strings.HasPrefix(right.resource, "leases.") || name == "" || name == "kube-scheduler" || right.verb != "update" {
			continue
		}
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system"}}
		if _, err := b.admin.CoordinationV1().Leases("kube-system").Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// tools is a folder with helm and kubectl by these names.
func (b bed) tools(t *testing.T) string {
	t.Helper()
	if out, err := helm(t, "version"); err != nil { // builds it
		t.Fatal(out)
	}
	pinned, err := filepath.Abs(root + "/bin/tools/helm")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, path := range map[string]string{"helm": pinned, "kubectl": b.kubectlPath} {
		if err := os.Symlink(path, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// checkNothingIsLeft looks through all objects of all kinds but events, which expire.
func (b bed) checkNothingIsLeft(t *testing.T) {
	t.Helper()
	kinds := strings.Fields(b.kubectl(t, "api-resources", "--verbs=list", "-o", "name"))
	if len(kinds) < 30 {
		t.Fatalf("only %d kinds: %q", len(kinds), kinds)
	}
	for _, kind := range kinds {
		if kind == "events" || kind == "events.events.k8s.io" {
			continue
		}
		for line := range strings.Lines(b.kubectl(t, "get", kind, "-A", "-o", `jsonpath={range .items[*]}{.kind} {.metadata}{"\n"}{end}`)) {
			if strings.Contains(line, "csi-local") || strings.Contains(line, capacity.DefaultDriverName) {
				t.Errorf("left: %.300s", line)
			}
		}
	}
}
