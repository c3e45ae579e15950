package e2e

import (
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testUninstall takes csi-local away, as docs/install.md says, with a volume in use by
// nobody, of which somebody has made a snapshot, and brings it back.
func testUninstall(t *testing.T, b bed) {
	data := map[string]string{"data": ofClaim("data")}
	b.apply(t, claim("data", class, 64*mib), pod("before", forever, data))
	b.wantReady(t, "before")
	b.mustExec(t, "before", "echo precious > /data/file; sync")
	n := b.nodeOf(t, "before")
	b.kubectl(t, "delete", "pod", "before")
	n.MustRun(t, "lvcreate", "-y", "-s", "-n", "by-hand", "-L", "8m", group+"/"+b.logicalVolumes(t, n)[0])

	b.Must(t, "delete", "-k", b.Manifests("second-scheduler"), "--timeout="+patience.String())
	b.Must(t, "wait", "--for=delete", "pods", "-n", "kube-system", "-l", "app.kubernetes.io/name=csi-local", "--timeout="+patience.String())
	b.Must(t, "annotate", "nodes", "--all", "csi.volume.kubernetes.io/"+driver+"-", driver+"/capacity-report-")
	b.Must(t, "label", "nodes", "--all", driver+"/node-")
	b.Must(t, "delete", "leases", "-n", "kube-system", "csi-local-controller-"+driver, "external-resizer-kubernetes-io-csi-local", scheduler)
	b.wantNothingOfOurs(t, 1)

	b.install(t)
	b.apply(t, pod("after", forever, data))
	b.wantReady(t, "after")
	if got := b.mustExec(t, "after", "cat /data/file"); got != "precious" {
		t.Errorf("the volume has %q", got)
	}
	// The volume is csi-local's again: only the snapshot is missing from what it has.
	size := strings.TrimSpace(n.MustRun(t, "vgs", "--noheadings", "--units", "b", "--nosuffix", "-o", "vg_size", group))
	if got := strconv.FormatInt(b.published(t, n)+8*mib, 10); got != size {
		t.Errorf("%s bytes and a snapshot of 8 MiB are published, the volume group has %s", got, size)
	}
	restarts := b.Must(t, "-n", "kube-system", "get", "pods", "-l", "app.kubernetes.io/component=node", "-o", "jsonpath={.items[*].status.containerStatuses[*].restartCount}")
	if strings.Trim(restarts, "0 ") != "" {
		t.Errorf("containers were started again, %s times", restarts)
	}
	n.MustRun(t, "lvremove", "-y", group+"/by-hand")
}

// wantNothingOfOurs looks into everything that the cluster stores. Claims and volumes
// that users have say whose they are, and stay: so many volumes there are.
func (b bed) wantNothingOfOurs(t *testing.T, kept int) {
	t.Helper()
	for _, n := range b.Nodes() {
		b.wantCount(t, n, -1, -1) // kubelet takes a moment
	}
	kinds := strings.Fields(b.Must(t, "api-resources", "--verbs=list", "-o", "name"))
	for _, kind := range kinds {
		if kind == "events" || kind == "events.events.k8s.io" || strings.HasPrefix(kind, "persistentvolume") || strings.HasPrefix(kind, "componentstatuses") {
			continue
		}
		out, err := b.Kubectl(t.Context(), "get", kind, "--all-namespaces", "-o", "yaml", "--ignore-not-found")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out) {
			// The images that a node has are kubelet's to remove.
			image := strings.Contains(line, "ghcr.io/csi-local/")
			if !image && (strings.Contains(line, "csi-local") || strings.Contains(line, driver)) {
				t.Errorf("%s: %s", kind, strings.TrimSpace(line))
			}
		}
	}
	volumes, err := b.Client().CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(volumes.Items) != kept {
		t.Fatalf("%d PersistentVolumes, want the %d that users have: %v", len(volumes.Items), kept, err)
	}
	for _, v := range volumes.Items {
		for _, finalizer := range v.Finalizers {
			if finalizer != "kubernetes.io/pv-protection" {
				t.Logf("the volume keeps the finalizer %s", finalizer)
			}
		}
	}
}
