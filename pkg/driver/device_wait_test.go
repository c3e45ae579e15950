package driver

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// activeVolumes says of every volume that it is active.
type activeVolumes struct{ Volumes }

func (activeVolumes) Activate(_ context.Context, ref lvm.Ref) (lvm.LogicalVolume, error) {
	return lvm.LogicalVolume{VolumeGroup: ref.VolumeGroup, Name: ref.Name, Path: "/nonexistent/vgA/vol1", Active: true, Major: 253, Minor: 9}, nil
}

// A device node that never comes is waited for, but not for ever, and then the
// caller is told to come again: not that the volume is gone or broken
// (kubernetes/kubernetes#142243).
func TestOpenDevice_GivesUpAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Driver{volumes: activeVolumes{}}
		begin := time.Now()
		_, err := d.openDevice(t.Context(), volume{LogicalVolume: lvm.LogicalVolume{VolumeGroup: "vgA", Name: "vol1", Major: -1, Minor: -1}})
		if waited := time.Since(begin); waited != deviceWait {
			t.Errorf("waited %v, want %v", waited, deviceWait)
		}
		if got := codeOf("NodeStageVolume", err); got != codes.Unavailable || !errors.Is(err, errNotReady) {
			t.Errorf("code %v (%v), want Unavailable", got, err)
		}
	})
}

// When the caller's own time is up, the answer says so, whoever notices it first: the call
// or the wait for the device.
func TestOpenDevice_CallersTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Driver{volumes: activeVolumes{}}
		ctx, cancel := context.WithTimeout(t.Context(), deviceWait/2)
		defer cancel()
		_, err := d.openDevice(ctx, volume{LogicalVolume: lvm.LogicalVolume{VolumeGroup: "vgA", Name: "vol1", Major: -1, Minor: -1}})
		if got := codeOf("NodeStageVolume", err); got != codes.DeadlineExceeded {
			t.Errorf("code %v (%v), want DeadlineExceeded", got, err)
		}
	})
}
