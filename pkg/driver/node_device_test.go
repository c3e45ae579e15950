package driver_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/csi-local/csi-local/pkg/driver/drivertest"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
)

func TestStage_MissingDeviceNodeIsWaitedForNotFormatted(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
	must(t, v.Stage(t.Context()), v.mark(t.Context(), "precious"), v.Unstage(t.Context()))
	lv, err := v.lv(t.Context())
	must(t, err)
	node, err := filepath.EvalSymlinks(lv.Path)
	must(t, err, os.Remove(lv.Path))

	// Never: the caller's time is up before the driver's own wait is.
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	wantCode(t, v.Stage(short), codes.DeadlineExceeded)

	// Late: it appears while the driver waits (the abandoned wait, or a new one).
	must(t, os.Symlink(node, lv.Path))
	for err = v.Stage(t.Context()); err != nil; err = v.Stage(t.Context()) {
		wantCode(t, err, codes.Aborted)
		if t.Failed() {
			return
		}
	}
	must(t, v.checkMark(t.Context(), "precious"))
	if got := b.Kernel.Formats(v.Ref); got != 1 {
		t.Errorf("formatted %d times", got)
	}
}

func TestStage_LinkToAnotherDeviceIsNotFollowed(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v1 := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
	v2 := mustVolume(t, b, "vol2", gib, mountCap("xfs", writer))
	must(t, v1.Stage(t.Context()), v1.Unstage(t.Context()), v2.Stage(t.Context()), v2.Unstage(t.Context()))
	lv1, err := v1.lv(t.Context())
	must(t, err)
	lv2, err := v2.lv(t.Context())
	must(t, err)
	node2, err := filepath.EvalSymlinks(lv2.Path)
	must(t, err, os.Remove(lv1.Path), os.Symlink(node2, lv1.Path))
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	wantCode(t, v1.Stage(short), codes.DeadlineExceeded)
	wantNoMount(t, b, v1.Staging)
}

// A link that turns between two steps must not lead mkfs to another volume.
func TestStage_EveryStepIsOnTheDeviceThatWasChecked(t *testing.T) {
	for _, at := range []string{"clear", "probe", "format", "mount"} {
		t.Run(at, func(t *testing.T) {
			b := drivertest.ForTest(t, drivertest.Options{})
			v := mustVolume(t, b, "vol1", 64*mib, mountCap("ext4", writer))
			other := mustVolume(t, b, "vol2", 64*mib, blockCap(writer))
			must(t, other.Stage(t.Context()), other.mark(t.Context(), "precious"))
			lv, err := v.lv(t.Context())
			must(t, err)
			otherLV, err := other.lv(t.Context())
			must(t, err)
			node, err := filepath.EvalSymlinks(otherLV.Path)
			must(t, err)
			turn := func() error { return errors.Join(os.Remove(lv.Path), os.Symlink(node, lv.Path)) }
			b.SetHooks(func(_ context.Context, c lvmfake.Call) error {
				if at == "clear" && c.Op == lvmfake.OpReadEnds && c.Phase == lvmfake.After {
					return turn()
				}
				return nil
			}, func(c drivertest.Call) error {
				step := map[string]drivertest.Op{"probe": drivertest.OpProbe, "format": drivertest.OpFormat, "mount": drivertest.OpMount}[at]
				if c.Op == step && c.Phase == lvmfake.Before {
					return turn()
				}
				return nil
			})
			must(t, v.Stage(t.Context()), other.checkMark(t.Context(), "precious"))
			if v1, v2 := b.Kernel.Formats(v.Ref), b.Kernel.Formats(other.Ref); v1 != 1 || v2 != 0 {
				t.Errorf("formatted %d times, the other volume %d times", v1, v2)
			}
			number, err := v.number(t.Context())
			must(t, err)
			if m, _ := mountAt(b, v.Staging); m.Device != number {
				t.Errorf("mounted %+v, want device %v", m, number)
			}
		})
	}
}

// A report that cannot be read says nothing about what is in a volume.
func TestStage_UnreadableReportFormatsNothing(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
	b.SetHooks(func(_ context.Context, c lvmfake.Call) error {
		if c.Op == lvmfake.OpRefresh {
			return lvm.ErrReport
		}
		return nil
	}, nil)
	wantCode(t, v.Stage(t.Context()), codes.Unavailable)
	if got := b.Kernel.Formats(v.Ref); got != 0 {
		t.Errorf("formatted %d times", got)
	}
	b.SetHooks(nil, nil)
	must(t, v.Stage(t.Context()))
}
