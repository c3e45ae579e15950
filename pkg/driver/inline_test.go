package driver_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/csi-local/csi-local/pkg/driver/drivertest"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
)

// inlineVolume is a CSI inline volume of a pod.
type inlineVolume struct {
	bed        *drivertest.Bed
	handle     string
	pod        string
	attributes map[string]string
	cap        *csi.VolumeCapability
	readOnly   bool
}

func newInline(b *drivertest.Bed, handle string) *inlineVolume {
	return &inlineVolume{
		bed: b, handle: handle, pod: "uid-of-" + handle, cap: mountCap("", writer),
		attributes: map[string]string{
			"csi.storage.k8s.io/ephemeral": "true", "csi.storage.k8s.io/pod.name": "web", "pool": "pool-thick", "size": "64Mi",
			"csi.storage.k8s.io/pod.uid": "uid-of-" + handle,
		},
	}
}

func (v *inlineVolume) target() string {
	path := filepath.Join(v.bed.KubeletDir, "pods", v.pod, "volumes/kubernetes.io~csi/scratch/mount")
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		panic(err)
	}
	return path
}

func (v *inlineVolume) publish(ctx context.Context) error {
	_, err := v.bed.Node.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{
		VolumeId: v.handle, TargetPath: v.target(), VolumeCapability: v.cap, VolumeContext: v.attributes, Readonly: v.readOnly,
	})
	return err
}

func (v *inlineVolume) unpublish(ctx context.Context) error {
	_, err := v.bed.Node.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: v.handle, TargetPath: v.target()})
	return err
}

// kubeletForgets removes the pod's folder.
func (v *inlineVolume) kubeletForgets() error {
	return os.RemoveAll(filepath.Join(v.bed.KubeletDir, "pods", v.pod))
}

func freeExtents(ctx context.Context, b *drivertest.Bed) (int64, error) {
	state, err := b.LVM.Refresh(ctx)
	if err != nil {
		return 0, err
	}
	vg, _ := state.VolumeGroup("vgA")
	return vg.FreeExtents, nil
}

func volumeCount(ctx context.Context, b *drivertest.Bed) int {
	state, err := b.LVM.Refresh(ctx)
	if err != nil {
		return -1
	}
	vg, _ := state.VolumeGroup("vgA")
	return len(vg.LogicalVolumes)
}

func TestInline_LivesWithItsPod(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	free, err := freeExtents(t.Context(), b)
	must(t, err)
	v := newInline(b, "csi-0123")
	must(t, v.publish(t.Context()), v.publish(t.Context()), b.Restart(t.Context()), v.publish(t.Context()))
	m, ok := mountAt(b, v.target())
	if !ok || m.FSType != "ext4" || m.ReadOnly() {
		t.Errorf("mounted %+v", m)
	}
	if got := volumeCount(t.Context(), b); got != 1 {
		t.Errorf("%d volumes", got)
	}
	if _, err := stats(t.Context(), b, v.handle, v.target()); err != nil {
		t.Error(err)
	}
	_, err = b.Node.NodeGetVolumeHealth(t.Context(), &csi.NodeGetVolumeHealthRequest{VolumeId: v.handle})
	must(t, err)
	must(t, v.unpublish(t.Context()), v.unpublish(t.Context()))
	if exists(v.target()) {
		t.Error("the target is left")
	}
	if now, err := freeExtents(t.Context(), b); err != nil || now != free {
		t.Errorf("%d extents free, were %d (%v)", now, free, err)
	}
}

func TestInline_ReadOnlyAndFileSystem(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := newInline(b, "csi-1")
	v.readOnly = true
	v.cap = mountCap("btrfs", writer, "noatime")
	v.attributes["size"] = "200Mi"
	must(t, v.publish(t.Context()))
	wantMount(t, b, v.target(), "ro", "noatime")
	if m, _ := mountAt(b, v.target()); m.FSType != "btrfs" {
		t.Errorf("mounted %+v", m)
	}
}

func TestInline_Requests(t *testing.T) {
	for _, c := range []struct {
		name   string
		set    map[string]string
		unset  string
		handle string
		cap    *csi.VolumeCapability
		want   codes.Code
	}{
		{name: "no size", unset: "size", want: codes.InvalidArgument},
		{name: "size above the pool's bound", set: map[string]string{"size": "2Gi"}, want: codes.InvalidArgument},
		{name: "no pool", unset: "pool", want: codes.InvalidArgument},
		{name: "unknown pool", set: map[string]string{"pool": "nosuch"}, want: codes.ResourceExhausted},
		{name: "misspelt key", set: map[string]string{"sise": "1Gi"}, want: codes.InvalidArgument},
		{name: "mkfs options of a pod's author", set: map[string]string{"mkfsOptions": "-d /etc"}, want: codes.InvalidArgument},
		{name: "handle with a slash", handle: "vgA/vol1", want: codes.InvalidArgument},
		{name: "block", cap: blockCap(writer), want: codes.InvalidArgument},
		{name: "pod's UID from the path", unset: "csi.storage.k8s.io/pod.uid", want: codes.OK},
		{name: "pod's UID with a slash", set: map[string]string{"csi.storage.k8s.io/pod.uid": "../x"}, want: codes.InvalidArgument},
		{name: "not marked as ephemeral", unset: "csi.storage.k8s.io/ephemeral", want: codes.FailedPrecondition},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := drivertest.ForTest(t, drivertest.Options{})
			v := newInline(b, "csi-1")
			maps.Copy(v.attributes, c.set)
			delete(v.attributes, c.unset)
			if c.handle != "" {
				v.handle = c.handle
			}
			if c.cap != nil {
				v.cap = c.cap
			}
			wantCode(t, v.publish(t.Context()), c.want)
			if c.want != codes.OK && volumeCount(t.Context(), b) != 0 {
				t.Error("a volume was made")
			}
		})
	}
}

func TestInline_HandleOfAnotherPodIsRefused(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := newInline(b, "csi-1")
	must(t, v.publish(t.Context()))
	other := newInline(b, "csi-1")
	other.pod, other.attributes["csi.storage.k8s.io/pod.uid"] = "other", "other"
	wantCode(t, other.publish(t.Context()), codes.AlreadyExists)
}

// Somebody else's logical volume under the name that the handle needs is left alone.
func TestInline_NameTakenByAnotherIsLeftAlone(t *testing.T) {
	for _, known := range []bool{true, false} {
		b := drivertest.ForTest(t, drivertest.Options{})
		other, err := lvmfake.New(lvmfake.Options{Machine: b.Machine, VolumeGroups: []lvm.VolumeGroupSelector{{Name: "vgA"}}})
		must(t, err)
		_, err = other.Create(t.Context(), lvm.CreateRequest{Ref: lvm.Ref{VolumeGroup: "vgA", Name: "csi-1"}, SegmentType: lvm.SegLinear, SizeBytes: 8 * mib})
		must(t, err, other.Close())
		if known {
			must(t, b.Restart(t.Context()))
		}
		wantCode(t, newInline(b, "csi-1").publish(t.Context()), codes.FailedPrecondition)
		if got := volumeCount(t.Context(), b); got != 1 {
			t.Errorf("%d volumes", got)
		}
	}
}

func TestInline_IsNotAPersistentVolume(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := newInline(b, "csi-1")
	must(t, v.publish(t.Context()))
	_, err := b.Controller.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: "vgA/csi-1"})
	must(t, err)
	if volumeCount(t.Context(), b) != 1 {
		t.Error("the inline volume was deleted as a persistent one")
	}
	wantMount(t, b, v.target())
}

func TestInline_NoRoom(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	mustVolume(t, b, "big", 4*gib-32*mib, blockCap(writer))
	v := newInline(b, "csi-1")
	wantCode(t, v.publish(t.Context()), codes.ResourceExhausted)
}

// A device that cannot be reached keeps no pod from ending.
func TestInline_UnpublishWithoutItsVolumeGroup(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := newInline(b, "csi-1")
	must(t, v.publish(t.Context()))
	state, err := b.LVM.State(t.Context())
	must(t, err)
	b.Machine.RemoveGroup(state.VolumeGroups[0].UUID)
	must(t, b.Restart(t.Context()), v.unpublish(t.Context()), v.unpublish(t.Context()))
	wantNoMount(t, b, v.target())
}

// await polls until done says so: what the driver does by itself gives no sign.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// Teardown that was cut off: kubelet does not come again for a volume that it
// gave up (topolvm/topolvm#224).
func TestInline_AbandonedIsSweptUp(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	abandoned, kept := newInline(b, "csi-gone"), newInline(b, "csi-kept")
	persistent := mustVolume(t, b, "pvc-1", 64*mib, blockCap(writer))
	b.SetHooks(nil, func(c drivertest.Call) error {
		if c.Op == drivertest.OpMount && c.Phase == lvmfake.Before {
			return errors.New("no")
		}
		return nil
	})
	wantCode(t, abandoned.publish(t.Context()), codes.Internal)
	wantCode(t, kept.publish(t.Context()), codes.Internal)
	b.SetHooks(nil, nil)
	must(t, abandoned.kubeletForgets(), b.Restart(t.Context()))
	await(t, "the abandoned volume is gone", func() bool { return volumeCount(t.Context(), b) == 2 })
	must(t, kept.publish(t.Context()), persistent.Stage(t.Context()))
}

func TestInline_MountedOrWithAPodIsNotSweptUp(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := newInline(b, "csi-1")
	must(t, v.publish(t.Context()), b.Driver.SweepForTest(t.Context()))
	wantMount(t, b, v.target())
	target := v.target()
	must(t, v.kubeletForgets(), b.Driver.SweepForTest(t.Context()))
	wantMount(t, b, target)
	if got := volumeCount(t.Context(), b); got != 1 {
		t.Errorf("%d volumes", got)
	}
	must(t, b.Reboot(t.Context()))
	await(t, "not mounted any more, it is swept", func() bool { return volumeCount(t.Context(), b) == 0 })
}

// Without kubelet's folder of pods every pod would seem gone.
func TestInline_NothingIsSweptWithoutKubeletsFolder(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := newInline(b, "csi-1")
	must(t, v.publish(t.Context()), b.Close(), b.Kernel.Reboot())
	pods, away := filepath.Join(b.KubeletDir, "pods"), filepath.Join(b.Dir, "away")
	must(t, os.Rename(pods, away), b.Start(t.Context()))
	if err := b.Driver.SweepForTest(t.Context()); err == nil {
		t.Error("the sweep believes that it knows the pods")
	}
	if got := volumeCount(t.Context(), b); got != 1 {
		t.Errorf("%d volumes", got)
	}
	must(t, os.Rename(away, pods), v.publish(t.Context()))
}
