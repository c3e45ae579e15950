package driver

import (
	"context"
	"errors"

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
	if err := s.deleteByRef(ctx, ref); err != nil {
		return nil, err
	}
	return &csi.DeleteVolumeResponse{}, nil
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
