package node

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
)

type unixStat = syscall.Stat_t

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func writeAt(path, text string, offset int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(text), offset)
	return errors.Join(err, f.Sync(), f.Close())
}

func readAt(path string, length int, offset int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	b := make([]byte, length)
	_, err = f.ReadAt(b, offset)
	return string(b), errors.Join(err, f.Close())
}

// fill writes a byte over the first length bytes.
func fill(path string, length int64, value byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	block := []byte(strings.Repeat(string([]byte{value}), int(4*mib)))
	for at := int64(0); err == nil && at < length; at += int64(len(block)) {
		_, err = f.WriteAt(block, at)
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// errorTable puts a device-mapper table under the volume that fails every read
// and write, and returns what puts the real one back.
func (v *volume) errorTable(t *testing.T) (heal func()) {
	t.Helper()
	name := v.Ref.VolumeGroup + "-" + strings.ReplaceAll(v.Ref.Name, "-", "--")
	table := v.real.Command(t, "dmsetup", "table", name)
	sectors := strings.Fields(table)[1]
	load := func(table string) {
		v.real.Command(t, "dmsetup", "suspend", "--nolockfs", name)
		v.real.Command(t, "dmsetup", "load", name, "--table", table)
		v.real.Command(t, "dmsetup", "resume", name)
	}
	load("0 " + sectors + " error")
	return func() { load(strings.TrimSpace(table)) }
}

// The device exists and cannot be read: a probe sees nothing, and a driver that
// believes it formats somebody's data (kubernetes/kubernetes#142243,
// longhorn/longhorn#14042, hetznercloud/csi-driver#1346).
func TestStage_FormattedVolumeOnFailingDeviceIsNotFormatted(t *testing.T) {
	b := newBed(t)
	for fsType, size := range filesystems() {
		t.Run(fsType, func(t *testing.T) {
			v := b.create(t, "vol-"+fsType, size, mountCap(fsType, writer))
			must(t, v.Stage(t.Context()), writeFile(filepath.Join(v.Staging, "data"), "precious"), v.Unstage(t.Context()))
			heal := v.errorTable(t)
			must(t, dropCaches())
			wantCode(t, v.Stage(t.Context()), codes.Internal)
			b.restart(t)
			wantCode(t, v.Stage(t.Context()), codes.Internal)
			b.wantNoMount(t, v.Staging)
			heal()
			must(t, v.Stage(t.Context()))
			wantFile(t, filepath.Join(v.Staging, "data"), "precious")
		})
	}
}

func TestStage_NewVolumeOnFailingDeviceIsNotTakenIntoUse(t *testing.T) {
	b := newBed(t)
	v := b.create(t, "vol1", 64*mib, mountCap("ext4", writer))
	b.real.Admin(t, "lvchange", "-ay", "-K", v.Ref.String())
	b.restart(t)
	heal := v.errorTable(t)
	must(t, dropCaches())
	wantCode(t, v.Stage(t.Context()), codes.Internal)
	if tags := b.real.Admin(t, "lvs", "--noheadings", "-o", "lv_tags", v.Ref.String()); !strings.Contains(tags, "state=new") {
		t.Errorf("tags %s", tags)
	}
	heal()
	must(t, v.Stage(t.Context()))
}

func TestStage_RemovedDeviceNodes(t *testing.T) {
	b := newBed(t)
	v := b.create(t, "vol1", 64*mib, mountCap("btrfs", writer), "pool=pool-thick")
	must(t, v.Stage(t.Context()), writeFile(filepath.Join(v.Staging, "data"), "precious"))
	// The link is gone while mounted: the mount table must still know whose it is.
	must(t, os.Remove(v.devicePath()), os.Remove("/dev/mapper/vgA-vol1"))
	must(t, v.Publish(t.Context(), "pod1"), v.Unpublish(t.Context(), "pod1"), v.Unstage(t.Context()))
	must(t, v.Stage(t.Context()))
	wantFile(t, filepath.Join(v.Staging, "data"), "precious")
}

// Old contents of reused extents neither survive nor keep a volume from being made.
func TestStage_OldSignaturesAreCleared(t *testing.T) {
	b := newBed(t)
	for _, c := range []struct {
		name, found, fsType string
		make                func(device string) error
	}{
		{"ext4", "ext4", "xfs", func(d string) error { return b.mounter.Format(t.Context(), d, "ext4", nil) }},
		{"xfs", "xfs", "btrfs", func(d string) error { return b.mounter.Format(t.Context(), d, "xfs", nil) }},
		{"btrfs", "btrfs", "ext4", func(d string) error { return b.mounter.Format(t.Context(), d, "btrfs", nil) }},
		{"LUKS", "crypto_LUKS", "xfs", func(d string) error { return writeAt(d, "LUKS\xba\xbe\x00\x01", 0) }},
		{"partition table", "unknown data, probably partitions", "btrfs", func(d string) error {
			partition := "\x00\x00\x01\x00\x83\x00\x3f\x00\x00\x08\x00\x00\x00\x08\x00\x00"
			return errors.Join(writeAt(d, partition, 446), writeAt(d, "\x55\xAA", 510))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			// By hand and without a wipe, so that the signature stays in the extents.
			b.real.Admin(t, "lvcreate", "-y", "-Wn", "-Zn", "-L", "320m", "-n", "old", "vgA")
			must(t, c.make("/dev/vgA/old"))
			if found, err := b.mounter.Probe(t.Context(), "/dev/vgA/old"); err != nil || found != c.found {
				t.Errorf("the probe of what was made says %q, %v", found, err)
			}
			b.real.Admin(t, "lvremove", "-f", "vgA/old")
			v := b.create(t, "vol1", 320*mib, mountCap(c.fsType, writer))
			must(t, v.Stage(t.Context()), v.Unstage(t.Context()), v.Remove(t.Context()))
		})
	}
}

// A file system that was not unmounted, as after a power cut: the log is replayed.
func TestStage_DirtyLogIsReplayed(t *testing.T) {
	b := newBed(t)
	for fsType, size := range map[string]int64{"ext4": 64 * mib, "xfs": 320 * mib} {
		t.Run(fsType, func(t *testing.T) {
			v := b.create(t, "vol-"+fsType, size, mountCap(fsType, writer))
			must(t, v.Stage(t.Context()), writeFile(filepath.Join(v.Staging, "data"), "precious"), shutdownFilesystem(v.Staging))
			must(t, v.Unstage(t.Context()), v.Stage(t.Context()))
			wantFile(t, filepath.Join(v.Staging, "data"), "precious")
			must(t, writeFile(filepath.Join(v.Staging, "data"), "more"))
		})
	}
}

// shutdownFilesystem stops a file system as if the power were cut, its log kept
// (ioctl_xfs_goingdown(2); ext4 and btrfs know the same request).
func shutdownFilesystem(path string) error {
	const goingDown, logFlush = 0x8004587d, 1 // XFS_IOC_GOINGDOWN, XFS_FSOP_GOING_FLAGS_LOGFLUSH
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(unix.IoctlSetPointerInt(int(f.Fd()), goingDown, logFlush), f.Close())
}

// An ext4 that noted an error in itself is repaired before it is mounted again;
// until then nobody is told that all is well.
func TestStage_DamagedExt4IsRepaired(t *testing.T) {
	b := newBed(t)
	v := b.create(t, "vol1", 64*mib, mountCap("ext4", writer))
	must(t, v.Stage(t.Context()), writeFile(filepath.Join(v.Staging, "data"), "precious"), v.Unstage(t.Context()))
	// The flag that the kernel sets when it meets damage.
	b.real.Command(t, "debugfs", "-w", "-R", "set_super_value state 3", v.devicePath())
	must(t, v.Stage(t.Context()))
	wantFile(t, filepath.Join(v.Staging, "data"), "precious")
	must(t, v.Unstage(t.Context()))
	out := b.real.Command(t, "dumpe2fs", "-h", v.devicePath())
	if !strings.Contains(out, "Filesystem state:         clean\n") {
		t.Errorf("not repaired: %s", out)
	}
}

// A file system that meets errors is reported; whether the kernel shows that it
// made it read-only depends on its version.
func TestHealth_FilesystemWithErrors(t *testing.T) {
	b := newBed(t)
	v := b.create(t, "vol1", 64*mib, mountCap("ext4", writer, "errors=remount-ro"))
	health := func() []string {
		resp, err := b.node.NodeGetVolumeHealth(t.Context(), &csi.NodeGetVolumeHealthRequest{VolumeId: v.ID})
		must(t, err)
		var reasons []string
		for _, e := range resp.GetVolumeHealth().GetHealthStatuses() {
			reasons = append(reasons, e.GetReason())
		}
		return reasons
	}
	must(t, v.Stage(t.Context()))
	if got := health(); len(got) != 0 {
		t.Errorf("well, and reported as %v", got)
	}
	heal := v.errorTable(t)
	must(t, dropCaches())
	for range 3 {
		if err := writeFile(filepath.Join(v.Staging, "data"), "lost"); err == nil {
			t.Error("a write to a failing device succeeded")
		}
	}
	if got := health(); !slices.Contains(got, "FilesystemErrors") {
		t.Errorf("failing, and reported as %v", got)
	}
	heal()
	must(t, v.Unstage(t.Context()), v.Stage(t.Context()), v.Publish(t.Context(), "pod1"),
		writeFile(filepath.Join(v.Target("pod1"), "data"), "kept"))
	if got := health(); len(got) != 0 {
		t.Errorf("well again, and reported as %v", got)
	}
}

func dropCaches() error { return os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0o200) }
