package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/csi-local/csi-local/pkg/doctor"
	"github.com/csi-local/csi-local/test/testbed"
)

const (
	root     = "../.."
	viewer   = "somebody"
	patience = 30 * time.Second
)

// bed is a cluster of nodes n1 to n3 with csi-local, all of it well.
type bed struct {
	t       *testing.T
	cluster *testbed.Cluster
	admin   *kubernetes.Clientset
	// path has kubectl, csi-local, and csi-local as a plugin of kubectl.
	path string
	// viewer is the kubeconfig of somebody who may look only.
	viewer    string
	reporters map[string]func() // by node: ends it
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{t: t, viewer: filepath.Join(t.TempDir(), "viewer"), reporters: map[string]func(){}}
	folder := t.TempDir()
	built := make(chan error, 1) // while the cluster starts
	go func() {
		output, err := exec.CommandContext(t.Context(), "make", "-C", root, "kubectl-plugin", "PLUGIN="+filepath.Join(folder, "kubectl-csi_local")).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("building csi-local: %w\n%s", err, output)
		}
		built <- err
	}()
	kubectl, err := testbed.Kubectl.Path(t.Context(), os.Stderr)
	b.must(err)
	b.cluster = testbed.New(t, testbed.Options{})
	b.admin, err = kubernetes.NewForConfig(b.cluster.Admin())
	b.must(err)
	b.must(<-built)
	b.must(os.Symlink("kubectl-csi_local", filepath.Join(folder, "csi-local")))
	b.must(os.Symlink(kubectl, filepath.Join(folder, "kubectl")))
	b.path = folder + ":" + os.Getenv("PATH")
	b.shell("kubectl apply -k deploy/manifests/second-scheduler")
	b.shell("kubectl create clusterrolebinding viewers --clusterrole=csi-local-viewer --user=" + viewer)
	b.writeViewer()
	b.settle()
	for _, name := range []string{"n1", "n2", "n3"} {
		b.addNode(name)
	}
	b.addVolume("data", "n1")
	return b
}

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// writeViewer makes the kubeconfig of somebody who is bound to the viewers' role.
func (b *bed) writeViewer() {
	b.t.Helper()
	config, err := clientcmd.LoadFromFile(b.cluster.KubeconfigPath())
	b.must(err)
	for _, user := range config.AuthInfos {
		user.Impersonate = viewer
	}
	b.must(clientcmd.WriteToFile(*config, b.viewer))
}

// command runs in the root of the repository.
func (b *bed) command(kubeconfig, text string) (stdout, stderr string, code int) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-c", "set -euo pipefail; "+text)
	command.Dir = root
	command.Env = append(os.Environ(), "PATH="+b.path, "KUBECONFIG="+kubeconfig, "KUBECACHEDIR="+filepath.Join(filepath.Dir(b.viewer), "cache"))
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		b.t.Fatalf("%s: %v", text, err)
	}
	return out.String(), problems.String(), command.ProcessState.ExitCode()
}

// shell runs an administrator's command that has to succeed.
func (b *bed) shell(text string) string {
	b.t.Helper()
	stdout, stderr, code := b.command(b.cluster.KubeconfigPath(), text)
	if code != 0 {
		b.t.Fatalf("%s: status %d\n%s%s", text, code, stdout, stderr)
	}
	return stdout
}

// doctor returns what csi-local doctor finds, and fails if its status says otherwise.
func (b *bed) doctor() []doctor.Finding {
	b.t.Helper()
	stdout, stderr, code := b.command(b.viewer, "csi-local doctor -o json")
	var report doctor.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || stderr != "" {
		b.t.Fatalf("status %d, %v\n%s%s", code, err, stdout, stderr)
	}
	if want := map[bool]int{true: 0, false: 1}[report.Healthy]; code != want || report.Healthy != (len(report.Findings) == 0) {
		b.t.Fatalf("status %d with %d findings, healthy %v", code, len(report.Findings), report.Healthy)
	}
	return report.Findings
}

// healthy waits until doctor finds nothing.
func (b *bed) healthy() {
	b.t.Helper()
	testbed.Eventually(b.t, patience, "doctor is content", func() string {
		b.renewLeases()
		var text []string
		for _, f := range b.doctor() {
			text = append(text, fmt.Sprintf("%s: %s: %s", f.Check, f.Object, f.Wrong))
		}
		return strings.Join(text, "\n")
	})
}

// situation is one way to break the cluster.
type situation struct {
	name   string
	damage func(b *bed)
	// want is the only finding, as its check and its object.
	want string
	// after does what follows from the repair by others' work, where nobody of them runs
	// here. For a finding that no command repairs it ends the situation.
	after func(b *bed)
}

func (b *bed) run(s situation) {
	b.t.Helper()
	b.renewLeases()
	s.damage(b)
	found := b.doctor()
	var got []string
	for _, f := range found {
		got = append(got, f.Check+" "+f.Object.String())
	}
	if diff := cmp.Diff([]string{s.want}, got); diff != "" {
		b.t.Fatalf("findings (-want +got)\n%s", diff)
	}
	if found[0].Repairs {
		b.t.Logf("%s: %s", s.want, found[0].Command)
		b.shell(found[0].Command)
	}
	if s.after != nil {
		s.after(b)
	}
	b.healthy()
}
