package chart

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/csi-local/csi-local/internal/doctest"
	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/test/testbed"
)

// bed is a control plane with the kubectl of its version.
type bed struct {
	cluster            *testbed.Cluster
	kubectlPath, cache string
	admin              *kubernetes.Clientset
}

func newBed(t *testing.T, options testbed.Options) bed {
	t.Helper()
	cluster := testbed.New(t, options)
	path, err := testbed.Kubectl.Path(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := kubernetes.NewForConfig(cluster.Admin())
	if err != nil {
		t.Fatal(err)
	}
	return bed{cluster: cluster, kubectlPath: path, cache: t.TempDir(), admin: admin}
}

func (b bed) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), b.kubectlPath, append([]string{"--kubeconfig", b.cluster.KubeconfigPath(), "--cache-dir", b.cache}, args...)...)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// The API server takes every object, in every mode, as it stands and by kustomize, without a warning.
func TestManifests_AreTakenByTheAPIServer(t *testing.T) {
	b := newBed(t, testbed.Options{})
	for folder := range modes() {
		for _, flags := range [][]string{{"-f", manifestPath(folder)}, {"-k", filepath.Dir(manifestPath(folder))}} {
			out := b.kubectl(t, append([]string{"apply", "--dry-run=server", "--validate=strict"}, flags...)...)
			if strings.Contains(out, "Warning") || !strings.Contains(out, "daemonset.apps/csi-local-node created (server dry run)") {
				t.Errorf("%s:\n%s", folder, out)
			}
		}
	}
	t.Run("classes that could not work", b.testClasses)
	t.Run("rights", b.testRights)
}

// testClasses asks the policy as it ships.
func (b bed) testClasses(t *testing.T) {
	b.kubectl(t, "apply", "-f", manifestPath("second-scheduler"))
	b.waitForPolicy(t)
	all := map[string]string{}
	for _, key := range capacity.ClassParameterKeys() {
		all[key] = "x"
	}
	wait, immediate := storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate
	refused := map[string]string{}
	for i, tt := range []struct {
		input       string
		provisioner string
		mode        *storagev1.VolumeBindingMode
		parameters  map[string]string
		accepted    bool
	}{
		{"right", capacity.DefaultDriverName, &wait, map[string]string{"pool": "pool-ssd", "csi.storage.k8s.io/anything": "x"}, true},
		{"every key that the driver knows", capacity.DefaultDriverName, &wait, all, true},
		{"of another driver", "other.example", &immediate, map[string]string{"strips": "2"}, true},
		{"class with `volumeBindingMode: Immediate`", capacity.DefaultDriverName, &immediate, map[string]string{"pool": "pool-ssd"}, false},
		{"class without `volumeBindingMode`, which means Immediate", capacity.DefaultDriverName, nil, map[string]string{"pool": "pool-ssd"}, false},
		{"class without `pool`", capacity.DefaultDriverName, &wait, nil, false},
		{"class with a misspelt parameter, `strips`", capacity.DefaultDriverName, &wait, map[string]string{"pool": "pool-ssd", "strips": "2"}, false},
	} {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("class-%d", i)}, Provisioner: tt.provisioner, VolumeBindingMode: tt.mode, Parameters: tt.parameters}
		_, err := b.admin.StorageV1().StorageClasses().Create(t.Context(), class, metav1.CreateOptions{})
		switch {
		case tt.accepted && err != nil:
			t.Errorf("%s: refused: %v", tt.input, err)
		case !tt.accepted && err == nil:
			refused[tt.input] = "nothing: it was accepted"
		case !tt.accepted:
			_, refused[tt.input], _ = strings.Cut(err.Error(), "denied request: ")
		}
	}
	doc := doctest.Read(t, root+"/docs/wrong-input.md")
	if diff := cmp.Diff(doctest.Column(t, doc, "## The API server, when the object is made", 1), refused); diff != "" {
		t.Errorf("(-docs +API server)\n%s", diff)
	}
}

// waitForPolicy returns when the policy is in force, which takes the API server a moment.
func (b bed) waitForPolicy(t *testing.T) {
	t.Helper()
	immediate := storagev1.VolumeBindingImmediate
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Provisioner: capacity.DefaultDriverName, VolumeBindingMode: &immediate}
	testbed.Eventually(t, 30*time.Second, "the policy is in force", func() string {
		_, err := b.admin.StorageV1().StorageClasses().Create(t.Context(), class, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return "a class with binding mode Immediate is taken"
		}
		return ""
	})
}
