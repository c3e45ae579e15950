package driver

import (
	"context"
	"errors"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// DeleteVolume answers OK when the volume is wiped and gone, not before: until
// then its bytes are charged to it. A caller that cannot wait gets
// DeadlineExceeded, the work goes on, and a later call gets OK.
//
// A volume that is not there is deleted. IDs that are not of the form that this
// driver gives out, the handles of inline volumes among them, name nothing that
// could be deleted here.
func (s *controllerServer) DeleteVolume(ctx context.Context, req *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, volumeIDMissing.errorf()
	}
	ref, err := parseVolumeID(req.GetVolumeId())
	if err != nil {
		return &csi.DeleteVolumeResponse{}, nil //nolint:nilerr // see above
	}
	s.awaitUnstaged(ctx, ref)
	if err := s.deleteByRef(ctx, ref); err != nil {
		return nil, err
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// unstagePoll is how often it is looked whether a volume was taken down.
const unstagePoll = 50 * time.Millisecond

// awaitUnstaged waits, without the volume's lock, until it is mounted nowhere; not longer
// than unstageWait. kubelet lets a pod end before it calls NodeUnstageVolume, so of a claim
// that is deleted together with its pod the deletion often comes first. Refusing it would be
// a warning on a PersistentVolume in perfect order, and taking the lock would refuse kubelet.
//
// It goes by the last known state and decides nothing: deleteByRef looks again.
func (d *Driver) awaitUnstaged(ctx context.Context, ref lvm.Ref) {
	ctx, stop := d.operations.untilStop(ctx)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, d.unstageWait)
	defer cancel()
	tick := time.NewTicker(unstagePoll)
	defer tick.Stop()
	for d.isStaged(ctx, ref) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// isStaged tells whether the volume is mounted, or being mounted or unmounted. It looks at the
// mounts first: what unmounts the volume after that is still running, or has ended.
func (d *Driver) isStaged(ctx context.Context, ref lvm.Ref) bool {
	return d.isMounted(ctx, ref) || d.operations.inUse(lockKey(ref))
}

// isMounted goes by the last known state; false if nothing is known.
func (d *Driver) isMounted(ctx context.Context, ref lvm.Ref) bool {
	inv, err := d.inventory(ctx)
	if err != nil {
		return false
	}
	v, ok := inv.find(ref)
	if !ok {
		return false
	}
	mounts, err := d.mountsOf(v)
	return err == nil && len(mounts) > 0
}

// deleteByRef deletes a persistent volume of ours; it is fine if there is none.
func (d *Driver) deleteByRef(ctx context.Context, ref lvm.Ref) error {
	return d.operations.run(ctx, lockKey(ref), opDeletion, func(waitCtx, runCtx context.Context) error {
		v, err := d.lookup(waitCtx, volumeID(ref))
		if err == nil {
			err = d.remove(waitCtx, runCtx, v)
		}
		if errors.Is(err, errNotFound) || errors.Is(err, lvm.ErrNotFound) {
			return nil
		}
		return err
	})
}
