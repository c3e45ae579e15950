package e2e

import (
	"context"
	"testing"

	"github.com/csi-local/csi-local/test/cluster"
	"github.com/csi-local/csi-local/test/cluster/installed"
	"github.com/csi-local/csi-local/test/testbed"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// TestEndToEnd is one cluster, and the tests in the order that needs the fewest starts.
func TestEndToEnd(t *testing.T) {
	b := bed{Cluster: cluster.New(t, cluster.Options{
		Nodes: 2,
		// Small ones: volumes that are wiped are written, and sparse files grow.
		Disks:        []cluster.Disk{{SizeBytes: 3 << 30, VolumeGroup: group}, {SizeBytes: 1 << 30}},
		ManagerFlags: []string{"--node-monitor-grace-period=20s"},
		// Programs that are killed on purpose again and again are started again at once.
		Kubelet: map[string]any{"crashLoopBackOff": map[string]any{"maxContainerRestartPeriod": "1s"}},
	})}
	if !b.run(t, "newcomer", testNewcomer) {
		return
	}
	b.install(t)
	for _, one := range []struct {
		name string
		test func(*testing.T, bed)
	}{
		{"kinds", testKinds},
		{"shared", testShared},
		{"refused", testRefused},
		{"expansion", testExpansion},
		{"storm", testStorm},
		{"limits", testLimits},
		{"power", testPowerCut},
		{"upgrade", testUpgrade},
		{"lost-node", testLostNode},
		{"kills", testKills},
		{"doctor", testDoctor},
		{"uninstall", testUninstall},
	} {
		// What a test that failed has left would be the next one's failure.
		if !b.run(t, one.name, one.test) {
			return
		}
	}
}

// pools are those of the manifests, and allow inline volumes.
const pools = `
pools:
- name: pool-ssd
  volumeGroup: vg-ssd
  type: thick
  maxInlineSize: 1Gi
`

// install is what docs/install.md says: what a user writes is the pools.
func (b bed) install(t *testing.T) {
	t.Helper()
	b.Must(t, "apply", "-k", b.Manifests("second-scheduler"))
	text := b.Must(t, "-n", "kube-system", "create", "configmap", "csi-local-pools", "--from-literal=pools.yaml="+pools, "--dry-run=client", "-o", "yaml")
	if _, err := b.KubectlInput(t.Context(), text, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	b.wantRolledOut(t, installed.Parts()...)
	for _, n := range b.Nodes() {
		testbed.Eventually(t, patience, "what "+n.Name()+" publishes", func() string {
			if b.published(t, n) == 0 {
				return "nothing"
			}
			return ""
		})
	}
}

// wantRolledOut waits until all pods are of the present revision and ready.
func (b bed) wantRolledOut(t *testing.T, parts ...string) {
	t.Helper()
	if err := installed.WaitRolledOut(t.Context(), b.Cluster, patience, parts...); err != nil {
		t.Error(err)
	}
}

// system runs kubectl in the namespace of csi-local itself. It is for cleaning up, too,
// when the test's own context has ended.
func (b bed) system(t *testing.T, args ...string) {
	t.Helper()
	if _, err := b.Kubectl(context.WithoutCancel(t.Context()), append([]string{"-n", "kube-system"}, args...)...); err != nil {
		t.Error(err)
	}
}
