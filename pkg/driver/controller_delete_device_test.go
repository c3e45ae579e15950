package driver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
)

// The state may have a device number that belongs to another volume by now.
func TestDeleteVolume_AsksTheDeviceNotTheState(t *testing.T) {
	w := newWorld(t, worldOptions{DiskBytes: 64 * mib, Devices: true})
	p := w.start(t)
	victim := markUsed(t, p, mustCreate(t, p, createReq("victim", "thick", 8*mib)).GetVolumeId(), "")
	other := markUsed(t, p, mustCreate(t, p, createReq("other", "thick", 8*mib)).GetVolumeId(), "")
	// By hand: both go down, the other comes up first and gets the victim's number.
	hand := w.client(t)
	for _, ref := range []lvm.Ref{victim.Ref(), other.Ref()} {
		if err := hand.Deactivate(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
	}
	for _, ref := range []lvm.Ref{other.Ref(), victim.Ref()} {
		if _, err := hand.Activate(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
	}
	fill(t, other.Path, other.SizeBytes)
	mustDelete(t, p, victim.ID())
	if n := int64(dirty(t, other.Path)); n != other.SizeBytes {
		t.Errorf("the other volume has only %d of its %d bytes", n, other.SizeBytes)
	}
	if _, still := w.look(t)["vg-a"].Volumes["victim"]; still {
		t.Error("the volume is still there")
	}
}

// A link that turns while the volume is being deleted must not lead the wipe to
// another volume.
func TestDeleteVolume_WipesTheDeviceThatWasChecked(t *testing.T) {
	w := newWorld(t, worldOptions{DiskBytes: 64 * mib, Devices: true})
	p := w.start(t)
	victim := markUsed(t, p, mustCreate(t, p, createReq("victim", "thick", 8*mib)).GetVolumeId(), "")
	other := markUsed(t, p, mustCreate(t, p, createReq("other", "thick", 8*mib)).GetVolumeId(), "")
	fill(t, victim.Path, victim.SizeBytes)
	fill(t, other.Path, other.SizeBytes)
	node, err := filepath.EvalSymlinks(victim.Path)
	if err != nil {
		t.Fatal(err)
	}
	p.lvm.SetHook(func(_ context.Context, c lvmfake.Call) error {
		switch {
		case c.Op == lvmfake.OpChangeTags && c.Phase == lvmfake.After:
			return turn(victim.Path, other.Path)
		case c.Op == lvmfake.OpRemove && c.Phase == lvmfake.Before:
			return turn(victim.Path, node)
		}
		return nil
	})
	mustDelete(t, p, victim.ID())
	if n := int64(dirty(t, other.Path)); n != other.SizeBytes {
		t.Errorf("the other volume has only %d of its %d bytes", n, other.SizeBytes)
	}
}

// turn makes a link lead to where another path leads.
func turn(link, path string) error {
	node, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	return errors.Join(os.Remove(link), os.Symlink(node, link))
}

// The bytes of a snapshot that somebody made by hand are in its origin: wiping
// that would overrun the snapshot, and LVM refuses the removal only after it.
func TestDeleteVolume_OriginOfASnapshotIsLeftAlone(t *testing.T) {
	w := newWorld(t, worldOptions{DiskBytes: 64 * mib, Devices: true})
	p := w.start(t)
	v := markUsed(t, p, mustCreate(t, p, createReq("v", "thick", 8*mib)).GetVolumeId(), "")
	fill(t, v.Path, v.SizeBytes)
	// The driver's state does not have it.
	if err := w.machine.Snapshot(v.Ref(), "snap1", 8*mib); err != nil {
		t.Fatal(err)
	}
	before := w.look(t)
	err := deleteVolume(t, p, v.ID())
	wantCode(t, "DeleteVolume", err, codes.FailedPrecondition)
	if msg := status.Convert(err).Message(); !strings.Contains(msg, "snap1") {
		t.Errorf("message %q does not name the snapshot", msg)
	}
	if n := int64(dirty(t, v.Path)); n != v.SizeBytes {
		t.Errorf("only %d of %d bytes are left", n, v.SizeBytes)
	}
	if diff := cmp.Diff(before, w.look(t)); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
	if err := w.client(t).Remove(t.Context(), lvm.Ref{VolumeGroup: "vg-a", Name: "snap1"}); err != nil {
		t.Fatal(err)
	}
	mustDelete(t, p, v.ID())
	mustDelete(t, p, v.ID())
}

// Nor is a deletion taken up again that a snapshot got in the way of.
func TestDeleteVolume_SnapshotOfAHalfDeletedVolume(t *testing.T) {
	w := newWorld(t, worldOptions{DiskBytes: 64 * mib, Devices: true})
	p := w.start(t)
	v := markUsed(t, p, mustCreate(t, p, createReq("v", "thick", 8*mib)).GetVolumeId(), "")
	fill(t, v.Path, v.SizeBytes)
	broken := errors.New("input/output error")
	p.lvm.SetHook(func(_ context.Context, c lvmfake.Call) error {
		if c.Op == lvmfake.OpZero && c.Phase == lvmfake.Before {
			return broken
		}
		return nil
	})
	wantCode(t, "DeleteVolume", deleteVolume(t, p, v.ID()), codes.Internal)
	p.lvm.SetHook(nil)
	if err := w.machine.Snapshot(v.Ref(), "snap1", 8*mib); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "DeleteVolume", deleteVolume(t, p, v.ID()), codes.FailedPrecondition)
	if n := int64(dirty(t, v.Path)); n != v.SizeBytes {
		t.Errorf("only %d of %d bytes are left", n, v.SizeBytes)
	}
}

// A udevd opens a device for a moment after it has changed; that is no use of the volume.
func TestDeleteVolume_OpenerThatGoesIsWaitedFor(t *testing.T) {
	for _, pool := range []string{"thick", "thin"} {
		t.Run(pool, func(t *testing.T) {
			w := newWorld(t, worldOptions{DiskBytes: 128 * mib, Devices: true})
			p := w.start(t)
			v := markUsed(t, p, mustCreate(t, p, createReq("v", pool, 8*mib)).GetVolumeId(), "")
			if err := w.machine.SetOpen(v.Ref(), 1); err != nil {
				t.Fatal(err)
			}
			looks := 0
			p.lvm.SetHook(func(_ context.Context, c lvmfake.Call) error {
				if c.Op != lvmfake.OpOpenCount || c.Phase != lvmfake.Before {
					return nil
				}
				if looks++; looks == 3 {
					return w.machine.SetOpen(v.Ref(), 0)
				}
				return nil
			})
			if err := deleteVolume(t, p, v.ID()); err != nil {
				t.Error(err)
			}
			if looks != 3 {
				t.Errorf("it was looked at %d times", looks)
			}
		})
	}
}
