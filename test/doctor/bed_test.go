package doctor

import (
	"context"
	"fmt"
	"os"
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
	viewer   = "somebody"
	patience = 30 * time.Second
)

// bed is a cluster of nodes n1 to n3 with csi-local, all of it well.
type bed struct {
	t       *testing.T
	cluster *testbed.Cluster
	admin   *kubernetes.Clientset
	// boss may do everything, viewer may look only.
	boss, viewer Console
	reporters    map[string]func() // by node: ends it
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{t: t, reporters: map[string]func(){}}
	kubectl, err := testbed.Kubectl.Path(t.Context(), os.Stderr)
	b.must(err)
	folder, built := t.TempDir(), make(chan error, 1)
	go func() { // while the cluster starts
		path, err := Programs(t.Context(), folder, kubectl)
		b.boss.Path = path
		built <- err
	}()
	b.cluster = testbed.New(t, testbed.Options{})
	b.admin, err = kubernetes.NewForConfig(b.cluster.Admin())
	b.must(err)
	b.must(<-built)
	b.boss.Kubeconfig, b.boss.Cache = b.cluster.KubeconfigPath(), filepath.Join(folder, "cache")
	b.viewer = b.boss
	b.viewer.Kubeconfig = filepath.Join(folder, "viewer")
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
	b.must(clientcmd.WriteToFile(*config, b.viewer.Kubeconfig))
}

// command is one of the person's.
func (b *bed) command(who Console, text string) (stdout, stderr string, code int) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	stdout, stderr, code, err := who.Run(ctx, text)
	b.must(err)
	return stdout, stderr, code
}

// shell runs an administrator's command that has to succeed.
func (b *bed) shell(text string) string {
	b.t.Helper()
	stdout, stderr, code := b.command(b.boss, text)
	if code != 0 {
		b.t.Fatalf("%s: status %d\n%s%s", text, code, stdout, stderr)
	}
	return stdout
}

// doctor returns what csi-local doctor finds.
func (b *bed) doctor() []doctor.Finding {
	b.t.Helper()
	found, err := b.viewer.Findings(b.t.Context())
	b.must(err)
	return found
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
	if diff := cmp.Diff([]string{s.want}, Names(found)); diff != "" {
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
