package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// stagedDeviceName is the file in the staging folder of a block volume to which
// the device node is bound. So the mount table says for both kinds of volumes
// whether they are staged.
const stagedDeviceName = "device"

// NodeStageVolume makes the volume ready on the node: it formats it if it is
// new, and mounts it (block: binds its device) at the staging path.
func (s *nodeServer) NodeStageVolume(ctx context.Context, req *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	use, err := parseUse(req.GetVolumeId(), req.GetVolumeCapability(), req.GetVolumeContext(), false)
	if err != nil {
		return nil, err
	}
	if err := checkPathText("staging_target_path", req.GetStagingTargetPath()); err != nil {
		return nil, err
	}
	if _, err := parseVolumeID(use.id); err != nil {
		return nil, err
	}
	path, err := s.nodePath("staging_target_path", req.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}
	err = s.operations.run(ctx, use.key, opStaging, func(waitCtx, runCtx context.Context) error {
		return s.stage(waitCtx, runCtx, use, path)
	})
	if err != nil {
		return nil, err
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

func (d *Driver) stage(waitCtx, runCtx context.Context, use volumeUse, path string) error {
	v, err := d.lookup(waitCtx, use.id)
	if err != nil {
		return err
	}
	if err := checkAlive(v); err != nil {
		return err
	}
	dev, err := d.openDevice(waitCtx, v)
	if err != nil {
		return err
	}
	table, err := d.mountTable()
	if err != nil {
		return err
	}
	staged, err := checkStaged(table, v, dev.number, use, path)
	if err != nil {
		return err
	}
	if staged && v.State == stateUsed {
		return d.growStaged(runCtx, v, dev, use, path)
	}
	if v, err = d.prepare(waitCtx, runCtx, v, dev, use); err != nil {
		return err
	}
	if use.block {
		return d.bindDevice(runCtx, dev, filepath.Join(path, stagedDeviceName), use)
	}
	return d.mountFilesystem(runCtx, v, dev, use, path)
}

// checkStaged tells whether the volume is at the staging path already. That it
// is there in another way is a complaint that matches errConflict.
func checkStaged(table mountTable, v volume, number DeviceNumber, use volumeUse, path string) (bool, error) {
	asFilesystem, isMounted := table.at(path)
	asBlock, isBound := table.at(filepath.Join(path, stagedDeviceName))
	switch {
	case isMounted && asFilesystem.Device != number:
		return false, pathOccupied.errorf(path, asFilesystem.Source, v.ID())
	case !isMounted && isBound && asBlock.Device != number:
		return false, pathOccupied.errorf(filepath.Join(path, stagedDeviceName), asBlock.Source, v.ID())
	case isMounted && use.block, !isMounted && isBound && !use.block:
		return false, stagedOtherwise.errorf(v.ID(), path, "access type")
	case isMounted:
		return true, checkSame(v, asFilesystem, use, use.options, path)
	case isBound:
		return true, checkSame(v, asBlock, use, use.options, path)
	}
	return false, nil
}

// checkSame compares a mount that exists with what a request would make.
func checkSame(v volume, m Mount, use volumeUse, options mountOptions, path string) error {
	if use.block {
		if (mountOptions)(m.Options).has("ro") != use.readOnly() {
			return stagedOtherwise.errorf(v.ID(), path, "ro")
		}
		return nil
	}
	if use.fsType != "" && use.fsType != m.FSType {
		return stagedOtherwise.errorf(v.ID(), path, "file system "+m.FSType)
	}
	if m.failed() && !options.has("ro") {
		return filesystemFailed.errorf(v.ID(), path)
	}
	if option := options.conflict(m); option != "" {
		return stagedOtherwise.errorf(v.ID(), path, option)
	}
	return nil
}

// mountFilesystem mounts the volume and lets the file system fill it. After an
// error nothing is mounted: kubelet need not call NodeUnstageVolume then.
func (d *Driver) mountFilesystem(ctx context.Context, v volume, dev device, use volumeUse, path string) error {
	err := d.mounter.Mount(ctx, dev.path, path, v.FSType, use.options.forFilesystem(v.FSType))
	if err == nil {
		err = d.checkMounted(path, dev.number)
	}
	if err == nil && !use.readOnly() {
		err = d.mounter.Grow(ctx, dev.path, path, v.FSType)
	}
	if err == nil {
		return nil
	}
	return errors.Join(err, d.undoMount(ctx, path))
}

// undoMount unmounts path if anything was mounted there: a tool may fail after
// it has mounted. The caller knows that nothing was before.
func (d *Driver) undoMount(ctx context.Context, path string) error {
	table, err := d.mountTable()
	if err != nil {
		return err
	}
	if _, mounted := table.at(path); !mounted {
		return nil
	}
	return d.mounter.Unmount(ctx, path)
}

// undoTarget is undoMount and removes path.
func (d *Driver) undoTarget(ctx context.Context, path string) error {
	if err := d.undoMount(ctx, path); err != nil {
		return err
	}
	return removeIfThere(path)
}

// growStaged lets the file system of a staged volume fill it, in case an
// earlier call was cut off before that.
func (d *Driver) growStaged(ctx context.Context, v volume, dev device, use volumeUse, path string) error {
	if use.block || use.readOnly() {
		return nil
	}
	return d.mounter.Grow(ctx, dev.path, path, v.FSType)
}

// bindDevice makes the device node appear at the file path. After an error
// there is neither mount nor file.
func (d *Driver) bindDevice(ctx context.Context, dev device, path string, use volumeUse) error {
	if err := makeFile(path); err != nil {
		return err
	}
	var options mountOptions
	if use.readOnly() {
		options = mountOptions{"ro"}
	}
	err := d.mounter.Bind(ctx, dev.path, path, options)
	if err == nil {
		err = d.checkMounted(path, dev.number)
	}
	if err == nil {
		return nil
	}
	return errors.Join(err, d.undoTarget(ctx, path))
}

// checkMounted makes sure that what is mounted at path is the device that was
// meant: between the check of a device node and its use the node can change.
func (d *Driver) checkMounted(path string, number DeviceNumber) error {
	table, err := d.mountTable()
	if err != nil {
		return err
	}
	m, ok := table.at(path)
	if !ok || m.Device != number {
		return fmt.Errorf("%w: %s shows device %d:%d after mounting %d:%d", errNotReady, path,
			m.Device.Major, m.Device.Minor, number.Major, number.Minor)
	}
	return nil
}

func (d *Driver) mountTable() (mountTable, error) {
	mounts, err := d.mounter.Mounts()
	return mounts, err
}

// mountsOf returns where the volume is mounted; nowhere if it is not active.
func (d *Driver) mountsOf(v volume) ([]Mount, error) {
	table, err := d.mountTable()
	return table.of(numberOf(v)), err
}

// makeFile makes an empty file to bind a device node to; a regular file that is
// there from an earlier attempt will do.
func makeFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o600)
	if err == nil {
		return f.Close()
	}
	if !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: %s is no regular file", errPrecondition, path)
	}
	return nil
}

// removeIfThere removes a file or an empty folder.
func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
