package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/test/cluster/installed"
	"github.com/csi-local/csi-local/test/kill"
	"github.com/csi-local/csi-local/test/testbed"
)

// kills is how many programs are killed.
const kills = 50

// testKills kills each part of the system again and again while volumes are made and
// deleted. At the end, the cluster, the disks and the scheduler's books agree.
func testKills(t *testing.T, b bed) {
	// What never got a PersistentVolume is deleted in seconds here and not in an hour.
	undo, err := kill.HurryOrphans(t.Context(), b.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := undo(context.Background()); err != nil {
			t.Error(err)
		}
	})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	result, err := kill.Run(t.Context(), kill.Options{Load: b.load(), Kills: kills, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("killed: %v; volumes used meanwhile, by worker: %v", result.Killed, result.Used)
	b.kubectl(t, "delete", "pod,persistentvolumeclaim", "--all", "--timeout="+patience.String())
	b.wantNoVolumes(t)
	b.wantBooks(t, 0)
	for _, victim := range kill.Victims() {
		if result.Killed[victim] == 0 {
			t.Errorf("%s was never killed", victim)
		}
	}
	for i, used := range result.Used {
		if used == 0 {
			t.Errorf("worker %d never had a volume", i)
		}
	}
}

// load is of small volumes in the test's namespace.
func (b bed) load() kill.Load {
	return kill.Load{Cluster: b.Cluster, Namespace: b.namespace, Manifest: func(name string) string {
		return claim(name, class, 8*mib) + "---" + pod(name, forever, map[string]string{"data": ofClaim(name)})
	}}
}

// wantBooks waits until the scheduler that leads counts so many bytes of the pool as used,
// and none as reserved.
func (b bed) wantBooks(t *testing.T, used int64) {
	t.Helper()
	testbed.Eventually(t, patience, "the scheduler's books", func() string {
		lease, err := b.Client().CoordinationV1().Leases(installed.Namespace).Get(t.Context(), scheduler, metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return fmt.Sprintf("no leader, error %v", err)
		}
		pods, err := installed.Pods(t.Context(), b.Cluster, installed.ComponentScheduler)
		if err != nil {
			return err.Error()
		}
		complaint := "no pod leads: " + *lease.Spec.HolderIdentity
		for _, p := range pods {
			if len(*lease.Spec.HolderIdentity) > len(p.Name) && (*lease.Spec.HolderIdentity)[:len(p.Name)] == p.Name {
				complaint = b.booksOf(t, p.Status.PodIP, used)
			}
		}
		return complaint
	})
}

func (b bed) booksOf(t *testing.T, address string, used int64) string {
	text, err := installed.Metrics(t.Context(), b.Cluster, "https://"+address+":10259/metrics")
	if err != nil {
		return err.Error()
	}
	for kind, want := range map[string]int64{"used": used, "reserved": 0} {
		line := regexp.MustCompile(`csi_local_scheduler_pool_bytes\{[^}]*kind="` + kind + `",pool="` + pool + `"\} (\S+)`).FindSubmatch(text)
		if line == nil {
			return "no figure of " + pool
		}
		if got, err := strconv.ParseFloat(string(line[1]), 64); err != nil || int64(got) != want {
			return fmt.Sprintf("%s are %s bytes, want %d", kind, line[1], want)
		}
	}
	return ""
}
