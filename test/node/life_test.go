package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// filesystems with sizes that they like.
func filesystems() map[string]int64 {
	return map[string]int64{"ext4": 64 * mib, "xfs": 320 * mib, "btrfs": 256 * mib}
}

func TestLife_OfEachFilesystemWithRestartsAndReboots(t *testing.T) {
	b := newBed(t)
	for fsType, size := range filesystems() {
		t.Run(fsType, func(t *testing.T) {
			v := b.create(t, "vol-"+fsType, size, mountCap(fsType, multiWriter, "noatime"))
			must(t, v.Stage(t.Context()), v.Stage(t.Context()), v.Publish(t.Context(), "pod1"), v.Publish(t.Context(), "pod1"),
				v.Publish(t.Context(), "pod2"))
			b.wantMount(t, v.Staging, "noatime", "rw")
			b.wantMount(t, v.Target("pod1"), "noatime", "rw")
			if m, _ := b.mounted(t, v.Target("pod1")); m.FSType != fsType {
				t.Errorf("mounted %+v", m)
			}
			must(t, writeFile(filepath.Join(v.Target("pod1"), "data"), "precious"))
			wantFile(t, filepath.Join(v.Target("pod2"), "data"), "precious")
			wantCode(t, v.StageWith(t.Context(), mountCap(fsType, multiWriter, "nodev")), codes.AlreadyExists)
			wantCode(t, v.Remove(t.Context()), codes.FailedPrecondition)

			b.restart(t)
			must(t, v.Stage(t.Context()), v.Publish(t.Context(), "pod1"))
			resp, err := b.node.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: v.ID, VolumePath: v.Target("pod1")})
			must(t, err)
			if got := resp.GetUsage()[0]; got.GetTotal() < size/2 || got.GetTotal() > size || got.GetUsed() <= 0 || got.GetAvailable() <= 0 {
				t.Errorf("usage %+v", got)
			}
			must(t, v.Unpublish(t.Context(), "pod2"), v.Unpublish(t.Context(), "pod2"))

			b.reboot(t)
			wantCode(t, v.Publish(t.Context(), "pod1"), codes.FailedPrecondition)
			must(t, v.Stage(t.Context()), v.Publish(t.Context(), "pod1"))
			wantFile(t, filepath.Join(v.Target("pod1"), "data"), "precious")
			must(t, v.Unpublish(t.Context(), "pod1"), v.Unstage(t.Context()), v.Unstage(t.Context()), v.Remove(t.Context()), v.Remove(t.Context()))
			if free := strings.TrimSpace(b.real.Admin(t, "lvs", "--noheadings", "-o", "lv_name", "vgA")); free != "" {
				t.Errorf("left: %s", free)
			}
		})
	}
}

func TestLife_OfABlockVolume(t *testing.T) {
	b := newBed(t)
	for _, class := range []string{"pool=pool-thick", "pool=pool-thin"} {
		v := b.create(t, "block", 64*mib, blockCap(multiWriter), class)
		must(t, v.Stage(t.Context()), v.Stage(t.Context()), v.Publish(t.Context(), "pod1"), v.Publish(t.Context(), "pod1"), v.Publish(t.Context(), "pod2"))
		want, err := os.Stat(v.devicePath())
		must(t, err)
		got, err := os.Lstat(v.Target("pod1"))
		must(t, err)
		if got.Mode().Type() != os.ModeDevice || got.Sys().(*unixStat).Rdev != want.Sys().(*unixStat).Rdev {
			t.Errorf("%s: published %v, want the device %v", class, got, want)
		}
		must(t, writeAt(v.Target("pod1"), "precious", 20*mib))
		b.reboot(t)
		stray := v.Target("pod1")
		if info, err := os.Lstat(stray); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s: after the reboot there is %v, %v", class, info, err)
		}
		wantCode(t, v.Publish(t.Context(), "pod1"), codes.FailedPrecondition)
		must(t, v.Stage(t.Context()), v.Publish(t.Context(), "pod1"))
		if text, err := readAt(v.Target("pod1"), 8, 20*mib); err != nil || text != "precious" {
			t.Errorf("%s: read %q, %v", class, text, err)
		}
		resp, err := b.node.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: v.ID, VolumePath: v.Target("pod1")})
		must(t, err)
		if got := resp.GetUsage(); len(got) != 1 || got[0].GetTotal() != 64*mib {
			t.Errorf("%s: usage %+v", class, got)
		}
		must(t, v.Unpublish(t.Context(), "pod1"), v.Unpublish(t.Context(), "pod2"), v.Unstage(t.Context()))
		if left, err := os.ReadDir(v.Staging); err != nil || len(left) != 0 {
			t.Errorf("%s: left in the staging path: %v, %v", class, left, err)
		}
		wantCode(t, v.StageWith(t.Context(), mountCap("ext4", writer)), codes.FailedPrecondition)
		must(t, v.Remove(t.Context()))
	}
}

func TestLife_OfAnInlineVolume(t *testing.T) {
	b := newBed(t)
	target := filepath.Join(b.kubeletDir, "pods/uid-1/volumes/kubernetes.io~csi/scratch/mount")
	must(t, os.MkdirAll(filepath.Dir(target), 0o750))
	publish := func() error {
		_, err := b.node.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{
			VolumeId: "csi-0123", TargetPath: target, VolumeCapability: mountCap("", writer),
			VolumeContext: map[string]string{
				"csi.storage.k8s.io/ephemeral": "true", "csi.storage.k8s.io/pod.uid": "uid-1", "pool": "pool-thick", "size": "32Mi",
			},
		})
		return err
	}
	must(t, publish(), publish(), writeFile(filepath.Join(target, "data"), "scratch"))
	b.restart(t)
	must(t, publish())
	wantFile(t, filepath.Join(target, "data"), "scratch")
	for range 2 {
		_, err := b.node.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: "csi-0123", TargetPath: target})
		must(t, err)
	}
	if left := strings.TrimSpace(b.real.Admin(t, "lvs", "--noheadings", "-o", "lv_name", "vgA")); left != "" {
		t.Errorf("left: %s", left)
	}
}

func TestStage_MkfsOptionsOfTheClass(t *testing.T) {
	b := newBed(t)
	v := b.create(t, "vol1", 64*mib, mountCap("ext4", writer), "mkfsOptions=-O ^has_journal -I 512 -m 3")
	must(t, v.Stage(t.Context()), v.Unstage(t.Context()))
	out := b.real.Command(t, "dumpe2fs", "-h", v.devicePath())
	if strings.Contains(out, "has_journal") || !strings.Contains(out, "Inode size:\t          512\n") {
		t.Errorf("made with other options: %s", out)
	}
	odd := b.create(t, "vol2", 64*mib, mountCap("ext4", writer), "mkfsOptions=-b 12345")
	wantCode(t, odd.Stage(t.Context()), codes.Internal)
	b.wantNoMount(t, odd.Staging)
}

// readonly and the class's mount options reach the pod (harvester/harvester#11329).
func TestPublish_ReadOnlyIsEROFS(t *testing.T) {
	b := newBed(t)
	v := b.create(t, "vol1", 64*mib, mountCap("ext4", multiWriter, "noatime", "nodev"))
	must(t, v.Stage(t.Context()), v.PublishWith(t.Context(), "pod1", v.Cap, true), v.Publish(t.Context(), "pod2"))
	b.wantMount(t, v.Target("pod1"), "ro", "noatime", "nodev")
	if err := writeFile(filepath.Join(v.Target("pod1"), "x"), "x"); !errors.Is(err, unix.EROFS) {
		t.Errorf("writing to the read-only target: %v", err)
	}
	must(t, writeFile(filepath.Join(v.Target("pod2"), "x"), "x"))
	wantCode(t, v.PublishWith(t.Context(), "pod1", v.Cap, false), codes.AlreadyExists)
	wantCode(t, v.PublishWith(t.Context(), "pod3", mountCap("ext4", multiWriter, "rw"), true), codes.InvalidArgument)

	odd := b.create(t, "vol2", 64*mib, mountCap("ext4", writer, "no-such-option"))
	wantCode(t, odd.Stage(t.Context()), codes.Internal)
	b.wantNoMount(t, odd.Staging)
	must(t, odd.StageWith(t.Context(), mountCap("ext4", reader)), odd.PublishWith(t.Context(), "pod1", mountCap("ext4", reader), false))
	b.wantMount(t, odd.Target("pod1"), "ro")
}

// Busy means an error until it is over; nothing is unmounted lazily. kubelet's
// folder that shows a second time elsewhere does not count (openebs/lvm-localpv#461).
func TestTeardown_BusyAndSecondViewOfKubeletsFolder(t *testing.T) {
	b := newBed(t)
	v := b.create(t, "vol1", 64*mib, mountCap("ext4", writer))
	view := filepath.Join(filepath.Dir(b.kubeletDir), "view")
	must(t, os.Mkdir(view, 0o750), unix.Mount(b.kubeletDir, view, "", unix.MS_BIND|unix.MS_REC, ""))
	t.Cleanup(func() {
		if err := unix.Unmount(view, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	must(t, v.Stage(t.Context()))
	second := filepath.Join(filepath.Dir(b.kubeletDir), "backup")
	must(t, os.Mkdir(second, 0o750), unix.Mount(v.Staging, second, "", unix.MS_BIND, ""))
	must(t, v.Publish(t.Context(), "pod1"))
	open, err := os.Create(filepath.Join(v.Target("pod1"), "file"))
	must(t, err)
	for range 3 {
		wantCode(t, v.Unpublish(t.Context(), "pod1"), codes.Internal)
		b.wantMount(t, v.Target("pod1"))
	}
	must(t, open.Close(), v.Unpublish(t.Context(), "pod1"), v.Unpublish(t.Context(), "pod1"), v.Unstage(t.Context()))
	if _, err := os.Lstat(v.Target("pod1")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("target: %v", err)
	}
	// Still open by the other mount: not deleted, not forced.
	wantCode(t, v.Remove(t.Context()), codes.FailedPrecondition)
	must(t, unix.Unmount(second, 0), v.Remove(t.Context()))
}

func TestTeardown_WithoutTheVolume(t *testing.T) {
	b := newBed(t)
	v := b.create(t, "vol1", 64*mib, mountCap("ext4", writer))
	must(t, v.Stage(t.Context()), v.Publish(t.Context(), "pod1"))
	target := v.Target("pod1")
	// LVM does not know the volume any more; device mapper still has it, open.
	b.real.Admin(t, "vgrename", "vgA", "vgOther")
	t.Cleanup(func() {
		if out, err := b.real.Try("lvm", "vgchange", "-an", "vgOther"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	b.restart(t)
	must(t, v.Unpublish(t.Context(), "pod1"), v.Unpublish(t.Context(), "pod1"), v.Unstage(t.Context()), v.Unstage(t.Context()))
	b.wantNoMount(t, target)
	b.wantNoMount(t, v.Staging)
}

// Online, under a writer, for each file system; and again, and by hand before.
func TestExpand_OnlineUnderAWriter(t *testing.T) {
	b := newBed(t)
	for fsType, size := range filesystems() {
		t.Run(fsType, func(t *testing.T) {
			v := b.create(t, "vol-"+fsType, size, mountCap(fsType, writer))
			must(t, v.Stage(t.Context()), v.Publish(t.Context(), "pod1"))
			before := b.statfs(t, v.Target("pod1")).TotalBytes
			var stopWriting atomic.Bool
			wrote := make(chan error, 1)
			go func() {
				var err error
				for i := 0; err == nil && !stopWriting.Load(); i++ {
					err = writeFile(filepath.Join(v.Target("pod1"), "data"), strings.Repeat("precious", 1000+i%100))
				}
				wrote <- err
			}()
			for range 2 {
				got, err := v.Expand(t.Context(), 2*size-1, v.Target("pod1"))
				must(t, err)
				if got != 2*size {
					t.Errorf("capacity %d, want %d", got, 2*size)
				}
			}
			stopWriting.Store(true)
			must(t, <-wrote)
			after := b.statfs(t, v.Target("pod1")).TotalBytes
			if after < before+size*8/10 {
				t.Errorf("file system had %d bytes and has %d", before, after)
			}
			b.real.Admin(t, "lvextend", "-L", "+"+itoa(size)+"b", v.Ref.String())
			got, err := v.Expand(t.Context(), 3*size, v.Target("pod1"))
			must(t, err)
			if now := b.statfs(t, v.Target("pod1")).TotalBytes; got != 3*size || now < after+size*8/10 {
				t.Errorf("extended by hand: capacity %d, file system %d", got, now)
			}
			must(t, v.Unpublish(t.Context(), "pod1"), v.Unstage(t.Context()), v.Remove(t.Context()))
		})
	}
}

func TestExpand_OfflineReadOnlyBlockAndHostFolder(t *testing.T) {
	b := newBed(t)
	for fsType, size := range filesystems() {
		t.Run(fsType, func(t *testing.T) {
			v := b.create(t, "vol-"+fsType, size, mountCap(fsType, writer))
			must(t, v.Stage(t.Context()), writeFile(filepath.Join(v.Staging, "data"), "precious"))
			before := b.statfs(t, v.Staging).TotalBytes
			must(t, v.Unstage(t.Context()))
			if _, err := v.Expand(t.Context(), 2*size, v.Target("pod1")); err != nil {
				t.Fatal(err)
			}
			must(t, v.StageWith(t.Context(), mountCap(fsType, reader)))
			if now := b.statfs(t, v.Staging).TotalBytes; now != before {
				t.Errorf("read-only, it has %d bytes and had %d", now, before)
			}
			_, err := v.Expand(t.Context(), 2*size, v.Staging)
			must(t, err, v.Unstage(t.Context()), v.Stage(t.Context()))
			if now := b.statfs(t, v.Staging).TotalBytes; now < before+size*8/10 {
				t.Errorf("staged for writing, it has %d bytes and had %d", now, before)
			}
			wantFile(t, filepath.Join(v.Staging, "data"), "precious")
			must(t, v.Unstage(t.Context()))
			folder := v.Target("pod1")
			must(t, os.Mkdir(folder, 0o750))
			_, err = v.Expand(t.Context(), 3*size, folder)
			wantCode(t, err, codes.Internal)
		})
	}
}

// What a volume gets by expansion reads as zeros, whoever had the extents before.
func TestExpand_NewPartReadsAsZeros(t *testing.T) {
	b := newBed(t)
	first := b.create(t, "first", 32*mib, blockCap(writer))
	old := b.create(t, "old", 64*mib, blockCap(writer))
	must(t, first.Stage(t.Context()), first.Publish(t.Context(), "pod1"), old.Stage(t.Context()), old.Publish(t.Context(), "pod1"))
	must(t, fill(old.Target("pod1"), 64*mib, 0xA5), old.Unpublish(t.Context(), "pod1"), old.Unstage(t.Context()), old.Remove(t.Context()))
	_, err := first.Expand(t.Context(), 96*mib, first.Target("pod1"))
	must(t, err)
	// The first part is what the disk held before there was a driver.
	for at := 32 * mib; at < 96*mib; at += mib {
		text, err := readAt(first.Target("pod1"), int(mib), at)
		must(t, err)
		if strings.Trim(text, "\x00") != "" {
			t.Fatalf("bytes of another tenant at %d", at)
		}
	}
}

func TestExpand_NoRoomSnapshotAndThinWatermark(t *testing.T) {
	b := newBed(t)
	v := b.create(t, "vol1", 64*mib, blockCap(writer))
	must(t, v.Stage(t.Context()))
	_, err := v.Expand(t.Context(), 10<<40, v.Staging)
	wantCode(t, err, codes.OutOfRange)
	b.real.Snapshot(t, v.Ref, "snap1", 16*mib)
	b.restart(t)
	_, err = v.Expand(t.Context(), 128*mib, v.Staging)
	wantCode(t, err, codes.Internal)
	b.real.Remove(t, lvm.Ref{VolumeGroup: "vgA", Name: "snap1"})
	got, err := v.Expand(t.Context(), 128*mib, v.Staging)
	must(t, err)
	if got != 128*mib {
		t.Errorf("capacity %d", got)
	}
	thin := b.create(t, "thin1", gib, blockCap(writer), "pool=pool-thin")
	must(t, thin.Stage(t.Context()), thin.Publish(t.Context(), "pod1"), fill(thin.Target("pod1"), 960*mib, 0x5A))
	b.restart(t)
	_, err = thin.Expand(t.Context(), gib+64*mib, thin.Target("pod1"))
	wantCode(t, err, codes.OutOfRange)
	if text, err := readAt(thin.Target("pod1"), 4, 100*mib); err != nil || text != "\x5A\x5A\x5A\x5A" {
		t.Errorf("read %q, %v", text, err)
	}
}
