package orphans

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/csi-local/csi-local/pkg/orphans"
	"github.com/csi-local/csi-local/test/admin"
	"github.com/csi-local/csi-local/test/nodeproc"
)

// A provisioner that dies right after claims were deleted in mid-creation leaves
// volumes that nobody asks for again (kubernetes-csi/external-provisioner#1449). They
// are out of the figure within two minutes, and deleted after the grace period. Beside them a volume loses its PersistentVolume that
// was somebody's, and gets it back.
func TestLeakedAndRetained(t *testing.T) {
	const sooner = 40 * time.Second // than by default
	b := newBed(t, "--orphan-grace=5s", fmt.Sprint("--orphan-first-look=", time.Minute-sooner))
	leaked := []string{"pvc-1", "pvc-2", "pvc-3", "pvc-4"}
	made := time.Now()
	for _, name := range leaked {
		b.create(name, "ext4")
	}
	unused := b.provision("pvc-unused", "ext4")
	if b.published() != b.total {
		t.Errorf("published %d after creation, %d before", b.published(), b.total)
	}
	checkRetained(b)
	b.await("all leaked volumes were out of the figure", func() bool { return b.events()["OrphanQuarantined"] >= 4+2 })
	if took := time.Since(made); took+sooner > 2*time.Minute {
		t.Errorf("out of the figure after %v, %v of which are missing here", took+sooner, sooner)
	}
	b.await("all leaked volumes are deleted", func() bool {
		return !b.there("pvc-1") && !b.there("pvc-2") && !b.there("pvc-3") && !b.there("pvc-4") && b.published() == b.total
	})
	b.await("events tell of it", func() bool { return b.events()["OrphanDeleted"] == 4+1 })
	// It never lost its own, and no pod has used it: the mark keeps it.
	if tags := admin.Run(b.t, "lvs", "--noheadings", "-o", "lv_tags", unused.ID); !strings.Contains(tags, "csi-local/seen=pv") {
		t.Errorf("its tags are %s", tags)
	}
	b.terminate("pvc-unused")
	b.unprotect("pvc-unused")
	b.awaitOrphans(orphans.Retained, "pvc-unused")
}

// checkRetained shows that somebody's data is kept and comes back as it was.
func checkRetained(b *bed) {
	b.t.Helper()
	v := b.provision("pvc-data", "ext4")
	file := func(path string) string { return filepath.Join(path, "precious") }
	b.inPod(v, "pod-1", func(path string) {
		if err := os.WriteFile(file(path), []byte("data"), 0o600); err != nil {
			b.t.Fatal(err)
		}
	})
	b.terminate("pvc-data")
	b.during(4*time.Second, "a PersistentVolume that is being deleted exists", func() bool { return len(b.list()[orphans.Retained]) == 0 })
	b.unprotect("pvc-data")
	b.awaitOrphans(orphans.Retained, "pvc-data")
	b.t.Log("\n" + admin.Run(b.t, b.Binary, "orphans", "list"))

	back := b.adopt("pvc-data")
	b.refused("exist", "delete", "pvc-data", "--yes")
	b.awaitOrphans(orphans.Retained)
	b.refused("is in order", "delete", "pvc-data", "--yes")
	b.inPod(back, "pod-2", func(path string) {
		if data, err := os.ReadFile(file(path)); err != nil || string(data) != "data" {
			b.t.Errorf("the data is %q, %v", data, err)
		}
	})

	b.terminate("pvc-data")
	b.unprotect("pvc-data")
	b.awaitOrphans(orphans.Retained, "pvc-data")
	b.t.Log(admin.Run(b.t, b.Binary, "orphans", "delete", "vg0/pvc-data", "--yes"))
	if b.there("pvc-data") {
		b.t.Error("it was not deleted")
	}
	b.awaitOrphans(orphans.Retained)
}

// adopt creates what csi-local orphans adopt prints, and returns the volume as
// kubelet sees it then.
func (b *bed) adopt(name string) nodeproc.Volume {
	b.t.Helper()
	manifest := admin.Run(b.t, b.Binary, "orphans", "adopt", name, "--storage-class=local")
	var object corev1.PersistentVolume
	if err := yaml.UnmarshalStrict([]byte(manifest), &object); err != nil {
		b.t.Fatalf("%v\n%s", err, manifest)
	}
	if _, err := b.Admin.CoreV1().PersistentVolumes().Create(b.t.Context(), &object, metav1.CreateOptions{}); err != nil {
		b.t.Fatalf("%v\n%s", err, manifest)
	}
	return nodeproc.Volume{
		Spec: nodeproc.Spec{Name: object.Name, FSType: object.Spec.CSI.FSType}, ID: object.Spec.CSI.VolumeHandle, Context: object.Spec.CSI.VolumeAttributes,
	}
}

// An API server that is away, that has lost all at once, or that does not know this
// node decides nothing.
func TestDoubtfulAPIServer(t *testing.T) {
	b := newBed(t, "--orphan-grace=1s", "--orphan-first-look=1s", "--orphan-hold=10m")
	names := []string{"pvc-1", "pvc-2", "pvc-3"}
	var volumes []nodeproc.Volume
	for _, name := range names {
		v := b.provision(name, "ext4")
		b.inPod(v, "pod", func(string) {})
		volumes = append(volumes, v)
	}
	decidesNothing := func(what string) {
		t.Helper()
		b.during(4*time.Second, "nothing is decided "+what, func() bool { return len(b.list()) == 0 && b.there(names...) })
	}
	if err := b.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.create("pvc-leaked", "ext4")
	decidesNothing("while it is away")
	if err := b.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.await("the leaked one is deleted afterwards", func() bool { return !b.there("pvc-leaked") })

	b.terminate(names...)
	b.unprotect(names...)
	b.await("an event tells of it", func() bool { return b.events()["OrphansHeld"] == 1 })
	decidesNothing("when it has lost all")
	for _, v := range volumes {
		b.makePersistentVolume(v)
	}
	if b.published() != b.total {
		t.Errorf("published %d, before %d", b.published(), b.total)
	}

	// Another cluster's API server: neither this node nor its volumes.
	if err := b.Admin.CoreV1().Nodes().Delete(t.Context(), nodeproc.NodeName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.terminate("pvc-1")
	b.unprotect("pvc-1")
	decidesNothing("when it does not know the node")
	b.makeNode()
}
