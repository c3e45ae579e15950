package driver_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/csi-local/csi-local/pkg/driver"
	"github.com/csi-local/csi-local/pkg/driver/drivertest"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
)

func TestStage_FirstTimeClearsFormatsAndMounts(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs", "btrfs", ""} {
		t.Run("fsType "+fsType, func(t *testing.T) {
			b := drivertest.ForTest(t, drivertest.Options{})
			v := mustVolume(t, b, "vol1", gib, mountCap(fsType, writer))
			must(t, v.Stage(t.Context()))
			want := fsType
			if want == "" {
				want = "ext4" // the pool's default
			}
			m, ok := mountAt(b, v.Staging)
			if !ok || m.FSType != want {
				t.Errorf("mounted %+v, want %s", m, want)
			}
			count := 0
			for _, option := range m.SuperOptions {
				if option == "nouuid" {
					count++
				}
			}
			if isXFS := want == "xfs"; isXFS && count != 1 || !isXFS && count != 0 {
				t.Errorf("nouuid %d times with %s", count, want)
			}
			lv, err := v.lv(t.Context())
			must(t, err)
			if !slices.Contains(lv.Tags, "csi-local/state=used") || !slices.Contains(lv.Tags, "csi-local/fs="+want) {
				t.Errorf("tags %v", lv.Tags)
			}
		})
	}
}

func TestStage_NouuidOfTheClassIsNotDoubled(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, mountCap("xfs", writer, "nouuid", "noatime"))
	must(t, v.Stage(t.Context()))
	m, _ := mountAt(b, v.Staging)
	if got := slices.DeleteFunc(slices.Clone(m.SuperOptions), func(o string) bool { return o != "nouuid" }); len(got) != 1 {
		t.Errorf("options %v", m.SuperOptions)
	}
	wantMount(t, b, v.Staging, "noatime")
}

// A new volume on extents that carry old signatures must neither keep them nor
// be refused for them.
func TestStage_OldSignaturesOnReusedExtentsAreCleared(t *testing.T) {
	for name, signature := range map[string]struct {
		offset int64
		magic  string
	}{
		"ext4":  {1080, "\x53\xEF"},
		"xfs":   {0, "XFSB"},
		"btrfs": {65600, "_BHRfS_M"},
		"LUKS":  {0, "LUKS\xba\xbe"},
		"LVM":   {512, "LABELONE"},
	} {
		t.Run(name, func(t *testing.T) {
			b := drivertest.ForTest(t, drivertest.Options{})
			v := mustVolume(t, b, "vol1", gib, mountCap("xfs", writer))
			_, err := b.LVM.Activate(t.Context(), v.Ref)
			must(t, err)
			lv, err := v.lv(t.Context())
			must(t, err)
			f, err := os.OpenFile(lv.Path, os.O_WRONLY, 0)
			must(t, err)
			_, err = f.WriteAt([]byte(signature.magic), signature.offset)
			must(t, err, f.Close(), v.Stage(t.Context()))
			if got := b.Kernel.Formats(v.Ref); got != 1 {
				t.Errorf("formatted %d times", got)
			}
		})
	}
}

// The device cannot be read, or its node is late: a probe sees nothing on a
// volume that holds data (kubernetes/kubernetes#142243, longhorn/longhorn#14042,
// hetznercloud/csi-driver#1346).
func TestStage_FormattedTagWithEmptyProbeNeverFormats(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
	must(t, v.Stage(t.Context()), v.mark(t.Context(), "precious"), v.Unstage(t.Context()))
	number, err := v.number(t.Context())
	must(t, err)
	b.Kernel.SetBlank(number, true)
	wantCode(t, v.Stage(t.Context()), codes.Internal)
	wantNoMount(t, b, v.Staging)
	must(t, b.Restart(t.Context()))
	wantCode(t, v.Stage(t.Context()), codes.Internal)
	b.Kernel.SetBlank(number, false)
	must(t, v.Stage(t.Context()), v.checkMark(t.Context(), "precious"))
	if got := b.Kernel.Formats(v.Ref); got != 1 {
		t.Errorf("formatted %d times", got)
	}
}

func TestStage_NewVolumeThatCannotBeReadIsNotFormatted(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
	broken := errors.New("input/output error")
	b.SetHooks(func(_ context.Context, c lvmfake.Call) error {
		if c.Op == lvmfake.OpReadEnds && c.Phase == lvmfake.Before {
			return broken
		}
		return nil
	}, nil)
	wantCode(t, v.Stage(t.Context()), codes.Internal)
	if got := b.Kernel.Formats(v.Ref); got != 0 {
		t.Errorf("formatted %d times", got)
	}
	b.SetHooks(nil, nil)
	must(t, v.Stage(t.Context()))
}

func TestStage_UsedVolumeInAnotherWayIsRefused(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second *csi.VolumeCapability
	}{
		{"block then file system", blockCap(writer), mountCap("ext4", writer)},
		{"file system then block", mountCap("ext4", writer), blockCap(writer)},
		{"ext4 then xfs", mountCap("ext4", writer), mountCap("xfs", writer)},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := drivertest.ForTest(t, drivertest.Options{})
			v := mustVolume(t, b, "vol1", gib, c.first)
			must(t, v.Stage(t.Context()), v.mark(t.Context(), "precious"), v.Unstage(t.Context()))
			wantCode(t, v.StageWith(t.Context(), c.second), codes.FailedPrecondition)
			must(t, v.checkMark(t.Context(), "precious"), v.Stage(t.Context()))
		})
	}
}

func TestStage_ProbeShowsAnotherFormatThanTheTag(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
	must(t, v.Stage(t.Context()), v.Unstage(t.Context()))
	lv, err := v.lv(t.Context())
	must(t, err)
	f, err := os.OpenFile(lv.Path, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt(make([]byte, 2), 1080)
	must(t, err)
	_, err = f.WriteAt([]byte("LUKS\xba\xbe"), 0)
	must(t, err, f.Close())
	wantCode(t, v.Stage(t.Context()), codes.Internal)
	if got := b.Kernel.Formats(v.Ref); got != 1 {
		t.Errorf("formatted %d times", got)
	}
}

// Repeats after a restart of kubelet or the driver (hetznercloud/csi-driver#172).
func TestStage_RepeatedIsFineAndOtherwiseIsAlreadyExists(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer, "noatime"))
	must(t, v.Stage(t.Context()), v.Stage(t.Context()), b.Restart(t.Context()), v.Stage(t.Context()))
	for name, other := range map[string]*csi.VolumeCapability{
		"other flags":  mountCap("ext4", writer, "nodev"),
		"no flags":     mountCap("ext4", writer),
		"read-only":    mountCap("ext4", reader, "noatime"),
		"ro flag":      mountCap("ext4", writer, "noatime", "ro"),
		"other type":   mountCap("xfs", writer, "noatime"),
		"block device": blockCap(writer),
	} {
		if err := v.StageWith(t.Context(), other); err == nil {
			t.Errorf("%s: staged", name)
		} else {
			wantCode(t, err, codes.AlreadyExists)
		}
	}
	if got := len(b.Kernel.Mounts()); got != 1 {
		t.Errorf("%d mounts: %+v", got, b.Kernel.Mounts())
	}
}

// A failure after the mount: kubelet need not unstage after a final error, so a
// mount that is left would block deletion for ever
// (GoogleCloudPlatform/gcs-fuse-csi-driver#1576).
func TestStage_FailureAfterMountIsUndone(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
	b.SetHooks(nil, func(c drivertest.Call) error {
		if c.Op == drivertest.OpGrow && c.Phase == lvmfake.Before {
			return errors.New("resize2fs: no such program")
		}
		return nil
	})
	wantCode(t, v.Stage(t.Context()), codes.Internal)
	wantNoMount(t, b, v.Staging)
	must(t, v.Remove(t.Context()))
	b.SetHooks(nil, nil)
	v = mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
	must(t, v.Stage(t.Context()))
}

func TestStage_BadMountOptions(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags []string
		mode  csi.VolumeCapability_AccessMode_Mode
		want  codes.Code
	}{
		{"unknown", []string{"no-such-option"}, writer, codes.Internal},
		{"ro and rw", []string{"ro", "rw"}, writer, codes.InvalidArgument},
		{"reader and rw", []string{"rw"}, reader, codes.InvalidArgument},
		{"bind", []string{"bind"}, writer, codes.InvalidArgument},
		{"remount in a list", []string{"noatime,remount"}, writer, codes.InvalidArgument},
		{"journal on another device", []string{"logdev=/dev/sda"}, writer, codes.InvalidArgument},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := drivertest.ForTest(t, drivertest.Options{})
			v := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
			wantCode(t, v.StageWith(t.Context(), mountCap("ext4", c.mode, c.flags...)), c.want)
			wantNoMount(t, b, v.Staging)
		})
	}
}

func TestStage_MkfsOptionsOfTheClass(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	for options, want := range map[string]codes.Code{
		"-O ^has_journal -m 1":     codes.OK,
		"-d /etc":                  codes.InvalidArgument,
		"-E offset=1048576":        codes.InvalidArgument,
		"-b 4096 /dev/of/somebody": codes.InvalidArgument,
	} {
		v, err := newVolumeOf(t.Context(), b, "vol1", gib, mountCap("ext4", writer), map[string]string{"pool": "pool-thick", "mkfsOptions": options})
		wantCode(t, err, want)
		if err == nil {
			// What stands in a PersistentVolume can be changed by hand.
			v.Context["mkfsOptions"] = "-d /etc"
			wantCode(t, v.Stage(t.Context()), codes.InvalidArgument)
			v.Context["mkfsOptions"] = options
			must(t, v.Stage(t.Context()), v.Unstage(t.Context()), v.Remove(t.Context()))
		}
	}
}

func TestStage_ReaderOnlyIsMountedReadOnly(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, mountCap("ext4", reader))
	must(t, v.Stage(t.Context()), v.Publish(t.Context(), "pod1"))
	wantMount(t, b, v.Staging, "ro")
	wantMount(t, b, v.Target("pod1"), "ro")
}

func TestStage_Paths(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
	outside := filepath.Join(b.Dir, "outside")
	must(t, os.Mkdir(outside, 0o750), os.Symlink(outside, filepath.Join(b.KubeletDir, "plugins/escape")),
		os.Mkdir(filepath.Join(outside, "globalmount"), 0o750), os.Symlink(outside, filepath.Join(b.KubeletDir, "plugins/link")))
	for name, path := range map[string]string{
		"relative":             "plugins/x",
		"not clean":            b.KubeletDir + "/plugins/../plugins/x",
		"outside":              outside,
		"kubelet's own folder": b.KubeletDir + "/pods",
		"dots out":             b.KubeletDir + "/plugins/../../outside",
		"link on the way":      b.KubeletDir + "/plugins/escape/globalmount",
		"link itself":          b.KubeletDir + "/plugins/link",
		"prefix only":          b.KubeletDir + "/plugins-of-others/x",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.Node.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{
				VolumeId: v.ID, StagingTargetPath: path, VolumeCapability: v.Cap,
			})
			wantCode(t, err, codes.InvalidArgument)
		})
	}
	if got := b.Kernel.Mounts(); len(got) != 0 {
		t.Errorf("mounted %+v", got)
	}
}

func TestStage_StagingPathTakenBySomethingElse(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
	b.Kernel.AddMount(driver.Mount{Path: v.Staging, FSType: "tmpfs", Source: "tmpfs", Device: driver.DeviceNumber{Major: -1, Minor: -1}})
	wantCode(t, v.Stage(t.Context()), codes.FailedPrecondition)
	if got := b.Kernel.Formats(v.Ref); got != 0 {
		t.Errorf("formatted %d times", got)
	}
}

func TestStage_UnknownAndDeletedVolumes(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
	must(t, v.Remove(t.Context()))
	wantCode(t, v.Stage(t.Context()), codes.NotFound)
	v.ID = "no-slash"
	wantCode(t, v.Stage(t.Context()), codes.NotFound)
	v.ID = "vgOther/vol1"
	wantCode(t, v.Stage(t.Context()), codes.FailedPrecondition)
}

func TestStage_FilesystemThatTheKernelMadeReadOnly(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
	must(t, v.Stage(t.Context()))
	number, err := v.number(t.Context())
	must(t, err)
	b.Kernel.FailFilesystem(number)
	wantCode(t, v.Stage(t.Context()), codes.Internal)
	wantCode(t, v.Publish(t.Context(), "pod1"), codes.Internal)
	must(t, v.Unstage(t.Context()), v.Stage(t.Context()), v.Publish(t.Context(), "pod1"))
}

func TestStage_HangingMkfsAnswersInTimeAndGoesOn(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
	other := mustVolume(t, b, "vol2", gib, blockCap(writer))
	release, entered := make(chan struct{}), make(chan struct{})
	b.SetHooks(nil, func(c drivertest.Call) error {
		if c.Op == drivertest.OpFormat && c.Phase == lvmfake.Before {
			close(entered)
			<-release
		}
		return nil
	})
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	wantCode(t, v.Stage(short), codes.DeadlineExceeded)
	<-entered
	wantCode(t, v.Stage(t.Context()), codes.Aborted)
	must(t, other.Stage(t.Context()))
	close(release)
	for err := v.Stage(t.Context()); err != nil; err = v.Stage(t.Context()) {
		wantCode(t, err, codes.Aborted)
		if t.Failed() {
			return
		}
	}
	if got := b.Kernel.Formats(v.Ref); got != 1 {
		t.Errorf("formatted %d times", got)
	}
	wantMount(t, b, v.Staging)
}
