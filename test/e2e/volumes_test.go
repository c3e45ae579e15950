package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/csi-local/csi-local/test/testbed"
)

// classes are of the same pool, with other filesystems.
const classes = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: e2e-xfs}
provisioner: kubernetes.io.csi.local
parameters: {pool: pool-ssd, csi.storage.k8s.io/fstype: xfs}
mountOptions: [noatime, nodiratime]
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: e2e-btrfs}
provisioner: kubernetes.io.csi.local
parameters: {pool: pool-ssd, csi.storage.k8s.io/fstype: btrfs}
volumeBindingMode: WaitForFirstConsumer
`

// writes is a pod's script that leaves a word of its own in each volume.
const writes = `for v in /ext4 /xfs /btrfs /ephemeral /inline; do echo $HOSTNAME >> $v/who; done
[ "$(head -c 7 /dev/block)" = written ] || printf written > /dev/block
sync; ` + forever

// testKinds has one pod with all kinds of volumes, twice: what is the claim's stays, what
// is the pod's is new, and all of it belongs to the pod's group.
func testKinds(t *testing.T, b bed) {
	b.apply(t, classes)
	t.Cleanup(func() { b.system(t, "delete", "storageclass", "e2e-xfs", "e2e-btrfs") })
	b.apply(t, claim("ext4", class, 64*mib), claim("xfs", "e2e-xfs", 320*mib), claim("btrfs", "e2e-btrfs", 256*mib),
		claim("block", class, 64*mib, "volumeMode: Block"))
	volumes := map[string]string{
		"ext4": ofClaim("ext4"), "xfs": ofClaim("xfs"), "btrfs": ofClaim("btrfs"), "block": ofClaim("block"),
		"ephemeral": ephemeral(32 * mib), "inline": inline("pool: pool-ssd, size: 32Mi"),
	}
	group := "securityContext: {fsGroup: 2000}"
	b.apply(t, pod("first", writes, volumes, group))
	b.wantReady(t, "first")
	b.wantNoFailedCreate(t)
	mounts := b.mustExec(t, "first", "cat /proc/mounts")
	for path, want := range map[string][]string{
		"/ext4": {"ext4", "rw"}, "/xfs": {"xfs", "noatime", "nodiratime"}, "/btrfs": {"btrfs"}, "/ephemeral": {"ext4"}, "/inline": {"ext4"},
	} {
		wantMount(t, mounts, path, want)
	}
	if got := b.mustExec(t, "first", "stat -c %g /ext4 /xfs /btrfs /ephemeral /inline | sort -u"); got != "2000" {
		t.Errorf("the volumes belong to group %q, want fsGroup 2000", got)
	}
	home := b.nodeOf(t, "first")

	b.kubectl(t, "delete", "pod", "first")
	b.apply(t, pod("second", writes, volumes, group))
	b.wantReady(t, "second")
	if n := b.nodeOf(t, "second"); n != home {
		t.Errorf("the second pod is on %s, the claims' volumes on %s", n.Name(), home.Name())
	}
	for volume, want := range map[string]string{
		"ext4": "first second", "xfs": "first second", "btrfs": "first second", "ephemeral": "second", "inline": "second",
	} {
		if got := strings.Join(strings.Fields(b.mustExec(t, "second", "cat /"+volume+"/who")), " "); got != want {
			t.Errorf("%s was written by %q, want %q", volume, got, want)
		}
	}
	if got := b.mustExec(t, "second", "head -c 7 /dev/block"); got != "written" {
		t.Errorf("the block volume begins with %q", got)
	}
	// kubelet dies while it takes the volumes down, and has to come back to the inline one,
	// of which only it knows. All of them have to be gone in the end.
	b.kubectl(t, "delete", "pod", "second", "--wait=false")
	home.MustRun(t, "pkill", "-KILL", "-x", "kubelet")
}

func wantMount(t *testing.T, mounts, path string, want []string) {
	t.Helper()
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if fields[1] != path {
			continue
		}
		has := append(strings.Split(fields[3], ","), fields[2])
		for _, word := range want {
			if !slices.Contains(has, word) {
				t.Errorf("%s is mounted %v, want %s", path, has, word)
			}
		}
		return
	}
	t.Errorf("%s is not mounted", path)
}

// testShared has two pods with one volume, one of which may only read, and a third, which
// wants the volume for itself.
func testShared(t *testing.T, b bed) {
	b.apply(t, claim("data", class, 64*mib), claim("alone", class, 64*mib, "accessModes: [ReadWriteOncePod]"))
	b.apply(t, pod("writer", forever, map[string]string{"data": ofClaim("data"), "alone": ofClaim("alone")}))
	b.wantReady(t, "writer")
	b.apply(t, pod("reader", forever, map[string]string{"data": "persistentVolumeClaim: {claimName: data, readOnly: true}"}))
	b.wantReady(t, "reader")
	b.mustExec(t, "writer", "echo shared > /data/file")
	testbed.Eventually(t, patience, "the other pod reads it", func() string {
		if got, err := b.exec(t.Context(), "reader", "cat /data/file"); err != nil || strings.TrimSpace(got) != "shared" {
			return got
		}
		return ""
	})
	if out, err := b.exec(t.Context(), "reader", "echo x > /data/file"); err == nil || !strings.Contains(err.Error(), "Read-only file system") {
		t.Errorf("a volume that is read only was written to: %s %v", out, err)
	}
	b.apply(t, pod("third", forever, map[string]string{"alone": ofClaim("alone")}))
	b.wantEvent(t, "third", "FailedScheduling", "ReadWriteOncePod")
	b.kubectl(t, "delete", "pod", "writer")
	b.wantReady(t, "third")
}
