package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/test/testbed"
)

// bed is a control plane with the kubectl of its version.
type bed struct {
	kubectlPath, kubeconfig, cache string
	admin                          *kubernetes.Clientset
}

func newBed(t *testing.T) bed {
	t.Helper()
	cluster := testbed.New(t, testbed.Options{})
	path, err := testbed.Kubectl.Path(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := kubernetes.NewForConfig(cluster.Admin())
	if err != nil {
		t.Fatal(err)
	}
	return bed{kubectlPath: path, kubeconfig: cluster.KubeconfigPath(), cache: t.TempDir(), admin: admin}
}

func (b bed) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), b.kubectlPath, append([]string{"--kubeconfig", b.kubeconfig, "--cache-dir", b.cache}, args...)...)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// The API server takes every object, in every mode, as it stands and by kustomize, without a warning.
func TestManifests_AreTakenByTheAPIServer(t *testing.T) {
	b := newBed(t)
	for folder := range modes() {
		for _, flags := range [][]string{{"-f", manifestPath(folder)}, {"-k", filepath.Dir(manifestPath(folder))}} {
			out := b.kubectl(t, append([]string{"apply", "--dry-run=server", "--validate=strict"}, flags...)...)
			if strings.Contains(out, "Warning") || !strings.Contains(out, "daemonset.apps/csi-local-node created (server dry run)") {
				t.Errorf("%s:\n%s", folder, out)
			}
		}
	}
	t.Run("classes that could not work", b.testClasses)
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
	for _, tt := range []struct {
		name        string
		provisioner string
		mode        *storagev1.VolumeBindingMode
		parameters  map[string]string
		reason      string
	}{
		{"right", capacity.DefaultDriverName, &wait, map[string]string{"pool": "pool-ssd", "csi.storage.k8s.io/anything": "x"}, ""},
		{"every-key-that-the-driver-knows", capacity.DefaultDriverName, &wait, all, ""},
		{"immediate", capacity.DefaultDriverName, &immediate, map[string]string{"pool": "pool-ssd"}, "WaitForFirstConsumer"},
		{"no-mode-is-immediate", capacity.DefaultDriverName, nil, map[string]string{"pool": "pool-ssd"}, "WaitForFirstConsumer"},
		{"no-pool", capacity.DefaultDriverName, &wait, nil, "parameters.pool is missing"},
		{"misspelt", capacity.DefaultDriverName, &wait, map[string]string{"pool": "pool-ssd", "strips": "2"}, "does not know: strips;"},
		{"of-another-driver", "other.example", &immediate, map[string]string{"strips": "2"}, ""},
	} {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: tt.name}, Provisioner: tt.provisioner, VolumeBindingMode: tt.mode, Parameters: tt.parameters}
		_, err := b.admin.StorageV1().StorageClasses().Create(t.Context(), class, metav1.CreateOptions{})
		switch {
		case tt.reason == "" && err != nil:
			t.Errorf("%s: refused: %v", tt.name, err)
		case tt.reason != "" && (err == nil || !strings.Contains(err.Error(), tt.reason)):
			t.Errorf("%s: %v", tt.name, err)
		}
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
