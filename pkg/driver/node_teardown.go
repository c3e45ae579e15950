package driver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// NodeUnpublishVolume takes the volume away from the target path and removes
// the path. An inline volume is deleted after that.
//
// Like NodeUnstageVolume it works from the path and the mount table alone: a
// pod must come to its end when the volume is gone, and when LVM hangs. So a
// volume that does not exist is no error.
func (s *nodeServer) NodeUnpublishVolume(ctx context.Context, req *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	id := req.GetVolumeId()
	path, gone, err := s.teardownPath(id, "target_path", req.GetTargetPath())
	if err != nil {
		return nil, err
	}
	if !gone {
		err = s.operations.run(ctx, operationKeyOf(id), opUnpublication, func(_, runCtx context.Context) error {
			if err := s.unmountAll(runCtx, id, path); err != nil {
				return err
			}
			if err := removeIfThere(path); err != nil {
				return fmt.Errorf("target of volume %s: %w", id, err)
			}
			return nil
		})
	}
	if err == nil && isInlineHandle(id) {
		err = s.deleteInline(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeUnstageVolume takes the volume away from the staging path. The path
// itself is the caller's.
func (s *nodeServer) NodeUnstageVolume(ctx context.Context, req *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	id := req.GetVolumeId()
	path, gone, err := s.teardownPath(id, "staging_target_path", req.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}
	if gone {
		return &csi.NodeUnstageVolumeResponse{}, nil
	}
	err = s.operations.run(ctx, operationKeyOf(id), opUnstaging, func(_, runCtx context.Context) error {
		node := filepath.Join(path, stagedDeviceName)
		bound, err := s.isDeviceMount(node)
		if err != nil {
			return err
		}
		if bound {
			if err := s.unmountAll(runCtx, id, node); err != nil {
				return err
			}
		}
		if err := s.unmountAll(runCtx, id, path); err != nil {
			return err
		}
		return s.removeStagedFile(node)
	})
	if err != nil {
		return nil, err
	}
	return &csi.NodeUnstageVolumeResponse{}, nil
}

// teardownPath checks ID and path. gone tells that the folder above the path
// does not exist, so nothing can be mounted at it.
func (d *Driver) teardownPath(id, field, path string) (resolved string, gone bool, err error) {
	if id == "" {
		return "", false, volumeIDMissing.errorf()
	}
	resolved, err = d.nodePath(field, path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", true, nil
	}
	return resolved, false, err
}

// unmountAll unmounts until nothing is mounted at path any more. Neither lazily
// nor by force: what is busy stays, and the caller comes again.
func (d *Driver) unmountAll(ctx context.Context, id, path string) error {
	// Nobody mounts so often on one path; a bound keeps a bug from looping.
	const mostMounts = 100
	for range mostMounts {
		table, err := d.mountTable()
		if err != nil {
			return err
		}
		m, mounted := table.at(path)
		if !mounted {
			return nil
		}
		if other, isOther := d.ownerOtherThan(id, m.Device); isOther {
			return othersVolume.errorf(path, other, id)
		}
		if err := d.mounter.Unmount(ctx, path); err != nil {
			return fmt.Errorf("volume %s: %w", id, err)
		}
	}
	return fmt.Errorf("volume %s: %s was mounted more than %d times", id, path, mostMounts)
}

// ownerOtherThan tells whether a device is, as far as is known, that of another
// logical volume than id's. It asks nobody, so that teardown never waits for LVM.
func (d *Driver) ownerOtherThan(id string, number DeviceNumber) (owner string, other bool) {
	inv := d.lastInventory.Load()
	if inv == nil || number == noDevice() {
		return "", false
	}
	for _, group := range inv.state.VolumeGroups {
		for _, lv := range group.LogicalVolumes {
			if !lv.Active || lv.Major != number.Major || lv.Minor != number.Minor {
				continue
			}
			if v, ours := inv.find(lv.Ref()); ours {
				return v.ID(), v.ID() != id
			}
			return lv.Ref().String(), lv.Ref().String() != id
		}
	}
	return "", false
}

// isDeviceMount tells whether a device node is bound to path.
func (d *Driver) isDeviceMount(path string) (bool, error) {
	table, err := d.mountTable()
	if err != nil {
		return false, err
	}
	m, mounted := table.at(path)
	return mounted && m.Block, nil
}

// removeStagedFile removes the file that a device node was bound to, and only
// that: empty, regular, in a folder that is not a mount.
func (d *Driver) removeStagedFile(path string) error {
	info, err := lstatIfThere(path)
	if err != nil || info == nil || !info.Mode().IsRegular() || info.Size() != 0 {
		return err
	}
	return removeIfThere(path)
}
