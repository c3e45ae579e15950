package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// Held open by a process and mounted nowhere: not deleted and not touched
// (lvmteam/lvm2#49, metal-stack/csi-driver-lvm#157).
func TestDelete_OpenedByAProcess(t *testing.T) {
	b := newBed(t)
	for _, class := range []string{"pool=pool-thick", "pool=pool-thin"} {
		v := b.create(t, "vol1", 32*mib, blockCap(writer), class)
		must(t, v.Stage(t.Context()), v.Publish(t.Context(), "pod1"), fill(v.Target("pod1"), 32*mib, 0xA5),
			v.Unpublish(t.Context(), "pod1"), v.Unstage(t.Context()))
		open, err := os.Open(v.devicePath())
		must(t, err)
		for range 2 {
			wantCode(t, v.Remove(t.Context()), codes.FailedPrecondition)
		}
		wantBytes(t, v.devicePath(), 32*mib, 0xA5)
		must(t, open.Close(), v.Remove(t.Context()), v.Remove(t.Context()))
	}
}

// The bytes of a snapshot that an administrator made are in its origin: wiping that
// would overrun the snapshot.
func TestDelete_OriginOfASnapshotIsLeftAlone(t *testing.T) {
	b := newBed(t)
	v := b.create(t, "vol1", 32*mib, blockCap(writer))
	must(t, v.Stage(t.Context()), v.Publish(t.Context(), "pod1"), fill(v.Target("pod1"), 32*mib, 0xA5),
		v.Unpublish(t.Context(), "pod1"), v.Unstage(t.Context()))
	b.real.Snapshot(t, v.Ref, "snap1", 8*mib)
	for range 2 {
		wantCode(t, v.Remove(t.Context()), codes.FailedPrecondition)
	}
	b.restart(t)
	wantCode(t, v.Remove(t.Context()), codes.FailedPrecondition)
	wantBytes(t, v.devicePath(), 32*mib, 0xA5)
	wantBytes(t, "/dev/vgA/snap1", 32*mib, 0xA5)
	if tags := b.real.Admin(t, "lvs", "--noheadings", "-o", "lv_tags", v.Ref.String()); !strings.Contains(tags, "state=used") {
		t.Errorf("tags %s", tags)
	}
	b.real.Remove(t, lvm.Ref{VolumeGroup: "vgA", Name: "snap1"})
	must(t, v.Remove(t.Context()), v.Remove(t.Context()))
}

// wantBytes wants the device's first length bytes to be all the same.
func wantBytes(t *testing.T, path string, length int64, value byte) {
	t.Helper()
	want := strings.Repeat(string([]byte{value}), int(mib))
	for at := int64(0); at < length; at += mib {
		if text, err := readAt(path, int(mib), at); err != nil || text != want {
			t.Fatalf("%s does not hold %#x at %d any more (%v)", path, value, at, err)
		}
	}
}

// The smallest volume that CreateVolume gives out can be formatted, mounted and
// written (metal-stack/csi-driver-lvm#129, longhorn/longhorn-manager#2785).
func TestStage_SmallestVolumeOfEachFilesystem(t *testing.T) {
	b := newBed(t)
	for fsType := range filesystems() {
		for _, class := range []string{"pool=pool-thick", "pool=pool-thin"} {
			v := b.create(t, "vol-"+fsType, 1, mountCap(fsType, writer), class)
			must(t, v.Stage(t.Context()), v.Publish(t.Context(), "pod1"),
				writeFile(filepath.Join(v.Target("pod1"), "data"), "precious"),
				v.Unpublish(t.Context(), "pod1"), v.Unstage(t.Context()), v.Stage(t.Context()))
			wantFile(t, filepath.Join(v.Staging, "data"), "precious")
			must(t, v.Unstage(t.Context()), v.Remove(t.Context()))
		}
	}
}

// What docs/limitations.md says of read-only block volumes: the mount is read-only,
// and the device behind it is not; that is left to the container's device rules.
func TestPublish_ReadOnlyBlockIsAReadOnlyMountOfTheNode(t *testing.T) {
	b := newBed(t)
	v := b.create(t, "vol1", 32*mib, blockCap(multiWriter))
	must(t, v.Stage(t.Context()), v.PublishWith(t.Context(), "reads", v.Cap, true), v.Publish(t.Context(), "writes"))
	b.wantMount(t, v.Target("reads"), "ro")
	b.wantMount(t, v.Target("writes"), "rw")
	if err := os.Chmod(v.Target("reads"), 0o600); err == nil {
		t.Error("the node can be changed through the read-only target")
	}
	must(t, writeAt(v.Target("writes"), "precious", 20*mib))
	if text, err := readAt(v.Target("reads"), 8, 20*mib); err != nil || text != "precious" {
		t.Errorf("read %q, %v", text, err)
	}
	if err := writeAt(v.Target("reads"), "written", 20*mib); err != nil {
		t.Errorf("Linux refuses writes through a read-only mount of a device node now (%v): say so in docs/limitations.md", err)
	}
}
