package driver_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csi-local/csi-local/pkg/driver"
	"github.com/csi-local/csi-local/pkg/driver/drivertest"
	"github.com/csi-local/csi-local/pkg/lvm"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// Access modes by short names.
const (
	writer       = csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	singleWriter = csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	multiWriter  = csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	reader       = csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY
)

func mountCap(fsType string, mode csi.VolumeCapability_AccessMode_Mode, flags ...string) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fsType, MountFlags: flags}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
	}
}

func blockCap(mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
	}
}

// testVolume is a volume with its paths, laid out as kubelet does.
type testVolume struct {
	bed     *drivertest.Bed
	id      string
	ref     lvm.Ref
	cap     *csi.VolumeCapability
	context map[string]string
	staging string
	bytes   int64
}

// newVolume creates a volume and its staging folder.
func newVolume(ctx context.Context, b *drivertest.Bed, name string, sizeBytes int64, c *csi.VolumeCapability) (*testVolume, error) {
	return newVolumeOf(ctx, b, name, sizeBytes, c, map[string]string{"pool": "pool-thick"})
}

func newVolumeOf(ctx context.Context, b *drivertest.Bed, name string, sizeBytes int64, c *csi.VolumeCapability, class map[string]string) (*testVolume, error) {
	resp, err := b.Controller.CreateVolume(ctx, &csi.CreateVolumeRequest{
		Name: name, Parameters: class, VolumeCapabilities: []*csi.VolumeCapability{c},
		CapacityRange: &csi.CapacityRange{RequiredBytes: sizeBytes},
	})
	if err != nil {
		return nil, err
	}
	id := resp.GetVolume().GetVolumeId()
	vg, lv, _ := strings.Cut(id, "/")
	v := &testVolume{
		bed: b, id: id, ref: lvm.Ref{VolumeGroup: vg, Name: lv}, cap: c, bytes: resp.GetVolume().GetCapacityBytes(),
		context: resp.GetVolume().GetVolumeContext(),
		staging: filepath.Join(b.KubeletDir, "plugins/kubernetes.io/csi", name, "globalmount"),
	}
	return v, os.MkdirAll(v.staging, 0o750)
}

func mustVolume(t *testing.T, b *drivertest.Bed, name string, sizeBytes int64, c *csi.VolumeCapability) *testVolume {
	t.Helper()
	v, err := newVolume(t.Context(), b, name, sizeBytes, c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// target is the target path for a pod; its parent is made as kubelet does.
func (v *testVolume) target(pod string) string {
	path := filepath.Join(v.bed.KubeletDir, "pods", pod, "volumes/kubernetes.io~csi", v.ref.Name, "mount")
	if v.cap.GetBlock() != nil {
		path = filepath.Join(v.bed.KubeletDir, "plugins/kubernetes.io/csi/volumeDevices/publish", v.ref.Name, pod)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		panic(err)
	}
	return path
}

func (v *testVolume) stage(ctx context.Context) error { return v.stageWith(ctx, v.cap) }

func (v *testVolume) stageWith(ctx context.Context, c *csi.VolumeCapability) error {
	_, err := v.bed.Node.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
		VolumeId: v.id, StagingTargetPath: v.staging, VolumeCapability: c, VolumeContext: v.context,
	})
	return err
}

func (v *testVolume) unstage(ctx context.Context) error {
	_, err := v.bed.Node.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: v.id, StagingTargetPath: v.staging})
	return err
}

func (v *testVolume) publish(ctx context.Context, pod string) error {
	return v.publishWith(ctx, pod, v.cap, false)
}

func (v *testVolume) publishWith(ctx context.Context, pod string, c *csi.VolumeCapability, readOnly bool) error {
	_, err := v.bed.Node.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{
		VolumeId: v.id, StagingTargetPath: v.staging, TargetPath: v.target(pod), VolumeCapability: c, Readonly: readOnly,
		VolumeContext: v.context,
	})
	return err
}

func (v *testVolume) unpublish(ctx context.Context, pod string) error {
	_, err := v.bed.Node.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: v.id, TargetPath: v.target(pod)})
	return err
}

func (v *testVolume) expand(ctx context.Context, sizeBytes int64, path string) (int64, error) {
	resp, err := v.bed.Node.NodeExpandVolume(ctx, &csi.NodeExpandVolumeRequest{
		VolumeId: v.id, VolumePath: path, StagingTargetPath: v.staging, VolumeCapability: v.cap,
		CapacityRange: &csi.CapacityRange{RequiredBytes: sizeBytes},
	})
	return resp.GetCapacityBytes(), err
}

func (v *testVolume) remove(ctx context.Context) error {
	_, err := v.bed.Controller.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: v.id})
	return err
}

// lv is what LVM says of the volume now.
func (v *testVolume) lv(ctx context.Context) (lvm.LogicalVolume, error) {
	state, err := v.bed.LVM.Refresh(ctx)
	if err != nil {
		return lvm.LogicalVolume{}, err
	}
	lv, ok := state.LogicalVolume(v.ref)
	if !ok {
		return lvm.LogicalVolume{}, lvm.ErrNotFound
	}
	return lv, nil
}

func (v *testVolume) number(ctx context.Context) (driver.DeviceNumber, error) {
	lv, err := v.lv(ctx)
	return driver.DeviceNumber{Major: lv.Major, Minor: lv.Minor}, err
}

// markerAt is a place that neither clearing the ends nor a superblock touches.
const markerAt = 16 << 20

// mark writes data into the volume behind the file system.
func (v *testVolume) mark(ctx context.Context, text string) error {
	lv, err := v.lv(ctx)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(lv.Path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(text), markerAt)
	return errors.Join(err, f.Close())
}

// checkMark reads it back.
func (v *testVolume) checkMark(ctx context.Context, text string) error {
	lv, err := v.lv(ctx)
	if err != nil {
		return err
	}
	f, err := os.Open(lv.Path)
	if err != nil {
		return err
	}
	got := make([]byte, len(text))
	_, err = f.ReadAt(got, markerAt)
	if err == nil && string(got) != text {
		err = fmt.Errorf("volume %s holds %q, want %q", v.id, got, text)
	}
	return errors.Join(err, f.Close())
}

// mountAt returns the uppermost mount at path.
func mountAt(b *drivertest.Bed, path string) (driver.Mount, bool) {
	for _, m := range slices.Backward(b.Kernel.Mounts()) {
		if m.Path == path {
			return m, true
		}
	}
	return driver.Mount{}, false
}

func wantMount(t *testing.T, b *drivertest.Bed, path string, options ...string) {
	t.Helper()
	m, ok := mountAt(b, path)
	if !ok {
		t.Errorf("nothing is mounted at %s", path)
		return
	}
	for _, option := range options {
		if !slices.Contains(append(m.Options, m.SuperOptions...), option) {
			t.Errorf("mount at %s has options %v %v, want %s", path, m.Options, m.SuperOptions, option)
		}
	}
}

func wantNoMount(t *testing.T, b *drivertest.Bed, path string) {
	t.Helper()
	if m, ok := mountAt(b, path); ok {
		t.Errorf("still mounted: %+v", m)
	}
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("code %v (%v), want %v", got, err, want)
	}
}

// must fails the test at the first error.
func must(t *testing.T, errs ...error) {
	t.Helper()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("step %d: %v", i+1, err)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
