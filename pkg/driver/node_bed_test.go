package driver_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
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
	return drivertest.MountCap(fsType, mode, flags...)
}

func blockCap(mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	return drivertest.BlockCap(mode)
}

// testVolume is a volume on a bed.
type testVolume struct {
	*drivertest.Volume
	bed *drivertest.Bed
}

// newVolume creates a volume and its staging folder.
func newVolume(ctx context.Context, b *drivertest.Bed, name string, sizeBytes int64, c *csi.VolumeCapability) (*testVolume, error) {
	return newVolumeOf(ctx, b, name, sizeBytes, c, map[string]string{"pool": "pool-thick"})
}

func newVolumeOf(ctx context.Context, b *drivertest.Bed, name string, sizeBytes int64, c *csi.VolumeCapability, class map[string]string) (*testVolume, error) {
	v, err := drivertest.CreateVolume(ctx, b, name, sizeBytes, c, class)
	return &testVolume{Volume: v, bed: b}, err
}

func mustVolume(t *testing.T, b *drivertest.Bed, name string, sizeBytes int64, c *csi.VolumeCapability) *testVolume {
	t.Helper()
	v, err := newVolume(t.Context(), b, name, sizeBytes, c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// lv is what LVM says of the volume now.
func (v *testVolume) lv(ctx context.Context) (lvm.LogicalVolume, error) {
	state, err := v.bed.LVM.Refresh(ctx)
	if err != nil {
		return lvm.LogicalVolume{}, err
	}
	lv, ok := state.LogicalVolume(v.Ref)
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
		err = fmt.Errorf("volume %s holds %q, want %q", v.ID, got, text)
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
