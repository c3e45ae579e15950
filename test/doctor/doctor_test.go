package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestDoctor(t *testing.T) {
	b := newBed(t)
	b.healthy()
	t.Run("status", b.testStatus)
	for _, s := range slices.Concat(installSituations(), nodeSituations(), claimSituations(), volumeSituations()) {
		passed := t.Run(s.name, func(t *testing.T) {
			whole := b.t
			defer func() { b.t = whole }()
			b.t = t
			b.run(s)
		})
		if !passed {
			t.Fatal("the cluster stays broken") // the next situations would not be alone
		}
	}
	t.Run("cannot ask", b.testCannotAsk)
}

// testStatus looks by way of kubectl, as somebody who may look only.
func (b *bed) testStatus(t *testing.T) {
	stdout, stderr, code := b.command(b.viewer, "kubectl csi-local status")
	for _, part := range []string{"Pool pool-ssd (thick): 3 nodes, 1 volume, 1 GiB of 300 GiB used", "\nn1 ", " of 100 GiB    1/100 ", "fresh\n"} {
		if code != 0 || stderr != "" || !strings.Contains(stdout, part) || strings.Contains(stdout, "\x1b") {
			t.Errorf("status %d, no %q in\n%s%s", code, part, stdout, stderr)
		}
	}
	if stdout, _, code := b.command(b.viewer, "kubectl csi_local doctor"); code != 0 || !strings.HasPrefix(stdout, "Healthy: ") {
		t.Errorf("status %d\n%s", code, stdout)
	}
}

// testCannotAsk: no answer is no health.
func (b *bed) testCannotAsk(t *testing.T) {
	text, err := os.ReadFile(b.viewer.Kubeconfig)
	b.must(err)
	nobody := b.viewer
	nobody.Kubeconfig = filepath.Join(t.TempDir(), "nobody")
	b.must(os.WriteFile(nobody.Kubeconfig, []byte(strings.ReplaceAll(string(text), viewer, "nobody")), 0o600))
	_, stderr, code := b.command(nobody, "csi-local doctor")
	for _, kind := range []string{"nodes", "persistentvolumes", "pods", "validatingadmissionpolicies.admissionregistration.k8s.io"} {
		if code != 2 || !strings.Contains(stderr, kind+": ") {
			t.Errorf("status %d, %s is not named:\n%s", code, kind, stderr)
		}
	}
	b.must(b.cluster.StopAPIServer())
	if stdout, stderr, code := b.command(b.viewer, "csi-local doctor"); code != 2 || stdout != "" || !strings.Contains(stderr, "refused") {
		t.Errorf("status %d\n%s%s", code, stdout, stderr)
	}
}
