package driver

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/klog/v2"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/lvm"
)

// expansion is a checked request to expand a volume.
type expansion struct {
	id   string
	path string // where the volume is said to be: staging, target or device path
	// staging is the staging path, if the caller names it.
	staging       string
	block         bool // the request says that it is a block volume
	requiredBytes int64
	limitBytes    int64
}

// NodeExpandVolume extends the logical volume and then, if it is mounted for
// writing, the file system; any other file system grows when it is staged next.
// Repeating it is harmless: each half is done only as far as it is not done yet.
func (s *nodeServer) NodeExpandVolume(ctx context.Context, req *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	e := expansion{
		id: req.GetVolumeId(), path: req.GetVolumePath(), staging: req.GetStagingTargetPath(),
		block:         req.GetVolumeCapability().GetBlock() != nil,
		requiredBytes: req.GetCapacityRange().GetRequiredBytes(),
		limitBytes:    req.GetCapacityRange().GetLimitBytes(),
	}
	if e.id == "" {
		return nil, volumeIDMissing.errorf()
	}
	if e.path == "" {
		return nil, pathMissing.errorf("volume_path")
	}
	var sizeBytes int64
	err := s.operations.run(ctx, operationKeyOf(e.id), opExpansion, func(waitCtx, runCtx context.Context) error {
		var err error
		sizeBytes, err = s.expand(waitCtx, runCtx, e)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: sizeBytes}, nil
}

func (d *Driver) expand(waitCtx, runCtx context.Context, e expansion) (sizeBytes int64, err error) {
	v, err := d.lookup(waitCtx, e.id)
	if err != nil {
		return 0, err
	}
	if err := checkAlive(v); err != nil {
		return 0, err
	}
	mounted, isMounted, err := d.findMounted(v, e)
	if err != nil {
		return 0, err
	}
	if v, err = d.extend(waitCtx, v, e); err != nil {
		return 0, err
	}
	if !isMounted || mounted.Block || mounted.ReadOnly() {
		return v.SizeBytes, nil
	}
	dev, err := d.openDevice(waitCtx, v)
	if err != nil {
		return 0, err
	}
	return v.SizeBytes, d.mounter.Grow(runCtx, dev.path, mounted.Path, mounted.FSType)
}

// findMounted returns the mount through which the file system is to grow. It is
// false for block volumes and for volumes that are not mounted. A path that
// exists and is not the volume's is an error, which the caller repeats (a code
// that means "infeasible" would end the expansion): the file system behind such
// a path is the host's.
func (d *Driver) findMounted(v volume, e expansion) (Mount, bool, error) {
	if e.block || v.State == stateUsed && v.FSType == "" {
		return Mount{}, false, nil
	}
	table, err := d.mountTable()
	if err != nil {
		return Mount{}, false, err
	}
	for _, path := range []string{e.path, e.staging} {
		if path == "" || checkPathText("volume_path", path) != nil {
			continue
		}
		if m, ok := d.mountOf(table, v, path); ok && !m.Block {
			return m, true, nil
		}
	}
	if err := checkPathText("volume_path", e.path); err != nil {
		return Mount{}, false, err
	}
	if info, err := lstatIfThere(e.path); err != nil || info != nil {
		return Mount{}, false, errors.Join(err, notAtPath.errorf(v.ID(), e.path))
	}
	if mounts := table.of(numberOf(v)); len(mounts) > 0 {
		return Mount{}, false, notAtPath.errorf(v.ID(), e.path)
	}
	return Mount{}, false, nil
}

// mountOf returns the volume's mount at path.
func (d *Driver) mountOf(table mountTable, v volume, path string) (Mount, bool) {
	resolved, err := resolveParent(path)
	if err != nil {
		return Mount{}, false
	}
	m, ok := table.at(resolved)
	return m, ok && numberOf(v) != noDevice() && m.Device == numberOf(v)
}

// extend makes the logical volume as large as is asked for. A volume that is
// large enough is left alone.
func (d *Driver) extend(ctx context.Context, v volume, e expansion) (volume, error) {
	inv, err := d.inventory(ctx)
	if err != nil {
		return volume{}, err
	}
	group, ok := inv.state.VolumeGroup(v.VolumeGroup)
	if !ok {
		return volume{}, fmt.Errorf("volume %s: %w", v.ID(), lvm.ErrVolumeGroupMissing)
	}
	if e.limitBytes > 0 && v.SizeBytes > e.limitBytes {
		return volume{}, largerThanLimit.errorf(v.ID(), capacity.FormatBytes(v.SizeBytes), capacity.FormatBytes(e.limitBytes))
	}
	required := e.requiredBytes
	if required >= 0 {
		required = max(required, v.SizeBytes) // negative is for VolumeSize to refuse
	}
	size, err := capacity.VolumeSize(v.shape(), capacity.FilesystemNone, required, e.limitBytes, group.ExtentSizeBytes)
	if err != nil {
		return volume{}, err
	}
	if size <= v.SizeBytes {
		return v, nil
	}
	if _, has := snapshotOf(group, v.Name); has {
		// Snapshots are made by hand, and by hand it may have been removed since.
		if inv, err = d.freshInventory(ctx); err != nil {
			return volume{}, err
		}
		group, _ = inv.state.VolumeGroup(v.VolumeGroup)
		if snapshot, has := snapshotOf(group, v.Name); has {
			return volume{}, expandOfOrigin.errorf(v.ID(), snapshot)
		}
	}
	if err := d.knowFill(ctx, inv, v); err != nil {
		return volume{}, err
	}
	release, err := d.admitExpansion(ctx, v, size, group.ExtentSizeBytes)
	if err != nil {
		return volume{}, err
	}
	defer release()
	lv, err := d.volumes.Extend(ctx, v.Ref(), size)
	if err != nil {
		return volume{}, d.withRoom(ctx, v, size, err)
	}
	klog.FromContext(ctx).V(2).Info("Extended volume", "volumeID", v.ID(), "fromBytes", v.SizeBytes, "toBytes", lv.SizeBytes)
	v.LogicalVolume = lv
	return v, nil
}

// knowFill makes LVM say how full the thin pool of a thin volume is, which it
// does not while the pool is inactive: an unknown fill leaves no room, and
// "no room" would end the expansion.
func (d *Driver) knowFill(ctx context.Context, inv *inventory, v volume) error {
	if v.ThinPool == "" {
		return nil
	}
	ref := lvm.Ref{VolumeGroup: v.VolumeGroup, Name: v.ThinPool}
	if pool, ok := inv.state.LogicalVolume(ref); !ok || pool.Active {
		return nil
	}
	_, err := d.volumes.Activate(ctx, ref)
	return err
}

// admitExpansion holds the bytes that the volume takes beyond what it has.
func (d *Driver) admitExpansion(ctx context.Context, v volume, sizeBytes, extentSizeBytes int64) (release func(), err error) {
	pool, err := d.pool(v.Pool)
	if err != nil {
		return nil, fmt.Errorf("expansion of volume %s: %w: %w", v.ID(), errPrecondition, err)
	}
	before, err := capacity.Footprint(v.shape(), v.SizeBytes, extentSizeBytes)
	if err != nil {
		return nil, err
	}
	after, err := capacity.Footprint(v.shape(), sizeBytes, extentSizeBytes)
	if err != nil {
		return nil, err
	}
	release, err = d.admit(ctx, pool, v.Ref(), sizeBytes, after-before)
	if err != nil {
		return nil, d.withRoom(ctx, v, sizeBytes, err)
	}
	return release, nil
}

// withRoom adds to an error for lack of space the numbers with which the user
// can ask for less.
func (d *Driver) withRoom(ctx context.Context, v volume, sizeBytes int64, err error) error {
	if !errors.Is(err, errExhausted) && !errors.Is(err, lvm.ErrNoSpace) && !errors.Is(err, lvm.ErrThinPoolFull) {
		return err
	}
	inv, invErr := d.inventory(ctx)
	if invErr != nil {
		return err
	}
	pool, poolErr := d.pool(v.Pool)
	if poolErr != nil {
		return err
	}
	usage, usageErr := inv.usage(pool)
	if usageErr != nil {
		return err
	}
	most := v.SizeBytes + usage.maximumVolumeSize(v.shape())
	tooLarge := expandTooLarge.errorf(v.ID(), capacity.FormatBytes(v.SizeBytes), capacity.FormatBytes(sizeBytes), pool.Name,
		capacity.FormatBytes(usage.available()), capacity.FormatBytes(most))
	if errors.Is(err, errExhausted) {
		return tooLarge
	}
	return fmt.Errorf("%w: %w", tooLarge, err)
}
