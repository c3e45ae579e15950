package driver_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/csi-local/csi-local/pkg/driver"
	"github.com/csi-local/csi-local/pkg/driver/drivertest"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
)

// readonly and the class's mount options reach the pod (harvester/harvester#11329).
func TestPublish_ReadOnlyAndFlagsReachTheTarget(t *testing.T) {
	for _, c := range []struct {
		name           string
		stage, publish []string
		readOnly       bool
		want           []string
		code           codes.Code
	}{
		{name: "readonly", stage: []string{"noatime", "nodev"}, publish: []string{"noatime", "nodev"}, readOnly: true, want: []string{"ro", "noatime", "nodev"}},
		{name: "flag ro", publish: []string{"ro"}, want: []string{"ro"}},
		{name: "writable", stage: []string{"noatime"}, publish: []string{"noatime"}, want: []string{"rw", "noatime"}},
		{name: "flags inherited", stage: []string{"noatime,nosuid"}, want: []string{"rw", "noatime", "nosuid"}},
		{name: "readonly with rw", publish: []string{"rw"}, readOnly: true, code: codes.InvalidArgument},
		{name: "ro with rw", publish: []string{"rw", "ro"}, code: codes.InvalidArgument},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := drivertest.ForTest(t, drivertest.Options{})
			v := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer, c.stage...))
			must(t, v.Stage(t.Context()))
			err := v.PublishWith(t.Context(), "pod1", mountCap("ext4", writer, c.publish...), c.readOnly)
			wantCode(t, err, c.code)
			if c.code != codes.OK {
				wantNoMount(t, b, v.Target("pod1"))
				return
			}
			wantMount(t, b, v.Target("pod1"), c.want...)
		})
	}
}

func TestPublish_RepeatedIsFineAndOtherwiseIsAlreadyExists(t *testing.T) {
	for name, c := range map[string]*csi.VolumeCapability{"file system": mountCap("ext4", writer), "block": blockCap(writer)} {
		t.Run(name, func(t *testing.T) {
			b := drivertest.ForTest(t, drivertest.Options{})
			v := mustVolume(t, b, "vol1", gib, c)
			must(t, v.Stage(t.Context()), v.Publish(t.Context(), "pod1"), v.Publish(t.Context(), "pod1"),
				b.Restart(t.Context()), v.Publish(t.Context(), "pod1"))
			wantCode(t, v.PublishWith(t.Context(), "pod1", c, true), codes.AlreadyExists)
			if got := len(b.Kernel.Mounts()); got != 2 {
				t.Errorf("%d mounts: %+v", got, b.Kernel.Mounts())
			}
		})
	}
}

func TestPublish_SecondTargetDependsOnTheAccessMode(t *testing.T) {
	for _, c := range []struct {
		name  string
		mode  csi.VolumeCapability_AccessMode_Mode
		block bool
		want  codes.Code
	}{
		{"single writer", singleWriter, false, codes.FailedPrecondition},
		{"writer", writer, false, codes.FailedPrecondition},
		{"multi writer", multiWriter, false, codes.OK},
		{"reader", reader, false, codes.FailedPrecondition},
		{"single writer block", singleWriter, true, codes.FailedPrecondition},
		{"multi writer block", multiWriter, true, codes.OK},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := drivertest.ForTest(t, drivertest.Options{})
			volumeCap := mountCap("ext4", c.mode)
			if c.block {
				volumeCap = blockCap(c.mode)
			}
			v := mustVolume(t, b, "vol1", gib, volumeCap)
			must(t, v.Stage(t.Context()), v.Publish(t.Context(), "pod1"))
			wantCode(t, v.Publish(t.Context(), "pod2"), c.want)
			if c.want != codes.OK {
				must(t, v.Unpublish(t.Context(), "pod1"), v.Publish(t.Context(), "pod2"))
				return
			}
			must(t, v.Unpublish(t.Context(), "pod1"))
			wantMount(t, b, v.Target("pod2"))
		})
	}
}

// kubelet's folder may be a bind mount of another disk, so that every mount in
// it shows twice; kubelet itself mounts sub-paths and block devices further.
// None of that is a second publication (openebs/lvm-localpv#461).
func TestPublish_MountsThatAreNoPublicationsDoNotCount(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, mountCap("ext4", singleWriter))
	must(t, v.Stage(t.Context()))
	staged, _ := mountAt(b, v.Staging)
	for _, path := range []string{
		"/mnt/disk2/kubelet/pods/pod0/volumes/kubernetes.io~csi/vol1/mount",
		"/mnt/disk2/kubelet/plugins/kubernetes.io/csi/vol1/globalmount",
		"/mnt/backup",
		filepath.Join(b.KubeletDir, "pods/pod0/volume-subpaths/vol1/main/0"),
		filepath.Join(b.KubeletDir, "plugins/kubernetes.io/csi/volumeDevices/vol1/dev/pod0"),
	} {
		m := staged
		m.Path = path
		b.Kernel.AddMount(m)
	}
	must(t, v.Publish(t.Context(), "pod1"))
	must(t, v.Unpublish(t.Context(), "pod1"), v.Unstage(t.Context()))
	wantNoMount(t, b, v.Target("pod1"))
	wantNoMount(t, b, v.Staging)
}

// After a reboot kubelet may publish without staging; what lies at the staging
// path then is a file or a folder of the host (longhorn/longhorn#8009).
func TestPublish_WithoutStagingAfterRebootIsRefused(t *testing.T) {
	for name, c := range map[string]*csi.VolumeCapability{"file system": mountCap("ext4", writer), "block": blockCap(writer)} {
		t.Run(name, func(t *testing.T) {
			b := drivertest.ForTest(t, drivertest.Options{})
			v := mustVolume(t, b, "vol1", gib, c)
			wantCode(t, v.Publish(t.Context(), "pod1"), codes.FailedPrecondition) // never staged
			must(t, v.Stage(t.Context()), v.Publish(t.Context(), "pod1"), b.Reboot(t.Context()))
			stray := filepath.Join(v.Staging, "stray")
			must(t, os.WriteFile(stray, []byte("of the host"), 0o600))
			wantCode(t, v.Publish(t.Context(), "pod1"), codes.FailedPrecondition)
			if got := b.Kernel.Mounts(); len(got) != 0 {
				t.Errorf("mounted %+v", got)
			}
			must(t, v.Stage(t.Context()), v.Publish(t.Context(), "pod1"))
			m, _ := mountAt(b, v.Target("pod1"))
			number, err := v.number(t.Context())
			must(t, err)
			if m.Device != number || m.Block != (c.GetBlock() != nil) {
				t.Errorf("published %+v", m)
			}
		})
	}
}

func TestPublish_StagingPathOfAnotherVolumeIsRefused(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v1 := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
	v2 := mustVolume(t, b, "vol2", gib, mountCap("ext4", writer))
	must(t, v1.Stage(t.Context()), v2.Stage(t.Context()))
	v1.Staging = v2.Staging
	wantCode(t, v1.Publish(t.Context(), "pod1"), codes.FailedPrecondition)
	wantNoMount(t, b, v1.Target("pod1"))
}

func TestPublish_WritableAfterReadOnlyStaging(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, mountCap("ext4", reader))
	must(t, v.Stage(t.Context()))
	wantCode(t, v.PublishWith(t.Context(), "pod1", mountCap("ext4", writer), false), codes.FailedPrecondition)
}

func TestPublish_FailedBindLeavesNoTarget(t *testing.T) {
	for name, c := range map[string]*csi.VolumeCapability{"file system": mountCap("ext4", writer), "block": blockCap(writer)} {
		t.Run(name, func(t *testing.T) {
			b := drivertest.ForTest(t, drivertest.Options{})
			v := mustVolume(t, b, "vol1", gib, c)
			must(t, v.Stage(t.Context()))
			b.SetHooks(nil, func(c drivertest.Call) error {
				if c.Op == drivertest.OpBind && c.Phase == lvmfake.Before {
					return errors.New("no")
				}
				return nil
			})
			wantCode(t, v.Publish(t.Context(), "pod1"), codes.Internal)
			if exists(v.Target("pod1")) {
				t.Error("the target is left")
			}
		})
	}
}

func TestPublish_Requests(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
	must(t, v.Stage(t.Context()))
	target := v.Target("pod1")
	for _, c := range []struct {
		name string
		req  *csi.NodePublishVolumeRequest
		want codes.Code
	}{
		{"no volume ID", &csi.NodePublishVolumeRequest{}, codes.InvalidArgument},
		{"no target", &csi.NodePublishVolumeRequest{VolumeId: v.ID, VolumeCapability: v.Cap, StagingTargetPath: v.Staging}, codes.InvalidArgument},
		{"no capability", &csi.NodePublishVolumeRequest{VolumeId: v.ID, TargetPath: target, StagingTargetPath: v.Staging}, codes.InvalidArgument},
		{"no staging path", &csi.NodePublishVolumeRequest{VolumeId: v.ID, TargetPath: target, VolumeCapability: v.Cap}, codes.FailedPrecondition},
		{"unknown volume", &csi.NodePublishVolumeRequest{VolumeId: "vgA/nosuch", TargetPath: target, VolumeCapability: v.Cap, StagingTargetPath: v.Staging}, codes.NotFound},
		{"target outside", &csi.NodePublishVolumeRequest{VolumeId: v.ID, TargetPath: "/etc/cron.d", VolumeCapability: v.Cap, StagingTargetPath: v.Staging}, codes.InvalidArgument},
		{"multi-node mode", &csi.NodePublishVolumeRequest{VolumeId: v.ID, TargetPath: target, StagingTargetPath: v.Staging,
			VolumeCapability: mountCap("ext4", csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER)}, codes.InvalidArgument},
		{"path beyond PATH_MAX", &csi.NodePublishVolumeRequest{VolumeId: v.ID, TargetPath: b.KubeletDir + "/pods/" + strings.Repeat("a/", 2100) + "b",
			VolumeCapability: v.Cap, StagingTargetPath: v.Staging}, codes.InvalidArgument},
		{"long path", &csi.NodePublishVolumeRequest{VolumeId: v.ID, TargetPath: v.Target("pod1/" + strings.Repeat("a/", 1000) + "b"),
			VolumeCapability: v.Cap, StagingTargetPath: v.Staging}, codes.OK},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := b.Node.NodePublishVolume(t.Context(), c.req)
			wantCode(t, err, c.want)
		})
	}
}

// EBUSY is an error until target and mount are gone (openebs/lvm-localpv#461).
func TestTeardown_BusyIsAnErrorUntilGone(t *testing.T) {
	for name, c := range map[string]*csi.VolumeCapability{"file system": mountCap("ext4", writer), "block": blockCap(writer)} {
		t.Run(name, func(t *testing.T) {
			b := drivertest.ForTest(t, drivertest.Options{})
			v := mustVolume(t, b, "vol1", gib, c)
			must(t, v.Stage(t.Context()), v.Publish(t.Context(), "pod1"))
			target := v.Target("pod1")
			b.Kernel.SetBusy(target, true)
			for range 3 {
				wantCode(t, v.Unpublish(t.Context(), "pod1"), codes.Internal)
				wantMount(t, b, target)
			}
			b.Kernel.SetBusy(target, false)
			must(t, v.Unpublish(t.Context(), "pod1"), v.Unpublish(t.Context(), "pod1"))
			if exists(target) {
				t.Error("the target is left")
			}
			must(t, v.Publish(t.Context(), "pod1"), v.Unpublish(t.Context(), "pod1"), v.Unstage(t.Context()), v.Unstage(t.Context()))
			if left, err := os.ReadDir(v.Staging); err != nil || len(left) != 0 {
				t.Errorf("left in the staging path: %v, %v", left, err)
			}
		})
	}
}

func TestTeardown_TargetThatCannotBeRemovedIsAnError(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
	must(t, v.Stage(t.Context()), v.Publish(t.Context(), "pod1"))
	target := v.Target("pod1")
	inTheWay := filepath.Join(target, "file")
	must(t, os.WriteFile(inTheWay, nil, 0o600))
	wantCode(t, v.Unpublish(t.Context(), "pod1"), codes.Internal)
	if !exists(inTheWay) {
		t.Fatal("a file of the host was removed")
	}
	wantCode(t, v.Unpublish(t.Context(), "pod1"), codes.Internal)
	must(t, os.Remove(inTheWay), v.Unpublish(t.Context(), "pod1"), v.Unpublish(t.Context(), "pod1"))
}

// The volume may be gone, and LVM may hang: pods still come to their end, and
// nothing asks LVM (openebs/lvm-localpv#303).
func TestTeardown_NeedsNeitherVolumeNorLVM(t *testing.T) {
	for name, c := range map[string]*csi.VolumeCapability{"file system": mountCap("ext4", writer), "block": blockCap(writer)} {
		t.Run(name, func(t *testing.T) {
			b := drivertest.ForTest(t, drivertest.Options{})
			v := mustVolume(t, b, "vol1", gib, c)
			must(t, v.Stage(t.Context()), v.Publish(t.Context(), "pod1"))
			state, err := b.LVM.State(t.Context())
			must(t, err)
			b.Machine.RemoveGroup(state.VolumeGroups[0].UUID)
			must(t, b.Restart(t.Context()))
			before := len(b.LVM.Calls())
			target := v.Target("pod1")
			must(t, v.Unpublish(t.Context(), "pod1"), v.Unpublish(t.Context(), "pod1"), v.Unstage(t.Context()), v.Unstage(t.Context()))
			if calls := b.LVM.Calls()[before:]; len(calls) != 0 {
				t.Errorf("LVM was asked: %+v", calls)
			}
			if exists(target) || len(b.Kernel.Mounts()) != 0 {
				t.Errorf("left: %v", b.Kernel.Mounts())
			}
		})
	}
}

func TestTeardown_PathOfAnotherVolumeIsLeftAlone(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v1 := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
	v2 := mustVolume(t, b, "vol2", gib, mountCap("ext4", writer))
	must(t, v1.Stage(t.Context()), v2.Stage(t.Context()))
	own := v1.Staging
	v1.Staging = v2.Staging
	wantCode(t, v1.Unstage(t.Context()), codes.Internal)
	wantMount(t, b, v2.Staging)
	v1.Staging = own
	must(t, v1.Unstage(t.Context()))
}

func TestTeardown_Requests(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	for _, c := range []struct {
		name, id, path string
		want           codes.Code
	}{
		{"no volume ID", "", b.KubeletDir + "/plugins/x", codes.InvalidArgument},
		{"no path", "vgA/vol1", "", codes.InvalidArgument},
		{"outside", "vgA/vol1", "/etc", codes.InvalidArgument},
		{"nothing there", "vgA/vol1", b.KubeletDir + "/plugins/x/globalmount", codes.OK},
		{"ID of nobody", "a/b/c", b.KubeletDir + "/plugins/x/globalmount", codes.OK},
		{"inline handle of nobody", "csi-0123", b.KubeletDir + "/pods/x/volumes/mount", codes.OK},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := b.Node.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: c.id, TargetPath: c.path})
			wantCode(t, err, c.want)
			_, err = b.Node.NodeUnstageVolume(t.Context(), &csi.NodeUnstageVolumeRequest{VolumeId: c.id, StagingTargetPath: c.path})
			wantCode(t, err, c.want)
		})
	}
}

// The volume is in use while it is mounted: it is not deleted, and its data stay.
func TestDelete_WhileStagedOrOpenIsRefused(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
	must(t, v.Stage(t.Context()), v.mark(t.Context(), "precious"))
	looks := 0
	b.LVM.SetHook(func(_ context.Context, c lvmfake.Call) error {
		if c.Op == lvmfake.OpOpenCount && c.Phase == lvmfake.Before {
			looks++
		}
		return nil
	})
	wantCode(t, v.Remove(t.Context()), codes.FailedPrecondition)
	if looks != 1 {
		t.Errorf("it was looked at %d times: unmounting it waits meanwhile", looks)
	}
	must(t, v.checkMark(t.Context(), "precious"), v.Unstage(t.Context()), b.Machine.SetOpen(v.Ref, 1))
	wantCode(t, v.Remove(t.Context()), codes.FailedPrecondition)
	must(t, v.checkMark(t.Context(), "precious"), b.Machine.SetOpen(v.Ref, 0), v.Remove(t.Context()), v.Remove(t.Context()))
}

var _ driver.Mounter = (*drivertest.Mounter)(nil)
