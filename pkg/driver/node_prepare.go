package driver

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// prepare brings a volume into the state in which it can be handed out, and
// returns it with its file system's type: a new one is cleared and formatted, a
// used one is only looked at.
func (d *Driver) prepare(waitCtx, runCtx context.Context, v volume, dev device, use volumeUse) (volume, error) {
	if v.State == stateNew {
		// The tags decide whether the volume is formatted, so they are read
		// from LVM now: a remembered "new" may be out of date.
		fresh, err := d.freshVolume(waitCtx, v)
		if err != nil {
			return volume{}, err
		}
		v = fresh
	}
	if v.State == stateNew {
		return d.prepareNew(runCtx, v, dev, use)
	}
	return v, d.checkUsed(runCtx, v, dev, use)
}

// freshVolume reads the volume anew. A volume that went away, was replaced or
// is being deleted meanwhile is an error.
func (d *Driver) freshVolume(ctx context.Context, v volume) (volume, error) {
	inv, err := d.freshInventory(ctx)
	if err != nil {
		return volume{}, err
	}
	fresh, ok := inv.find(v.Ref())
	switch {
	case !ok:
		return volume{}, fmt.Errorf("%w: %s", errNotFound, v.ID())
	case v.UUID != "" && fresh.UUID != v.UUID: // LVM tells the UUID of what we just made with the next report
		return volume{}, fmt.Errorf("%w: %s was replaced by another volume of its name", errNotReady, v.ID())
	}
	return fresh, checkAlive(fresh)
}

// prepareNew clears and formats a volume that nobody has used. Cut off anywhere
// it is simply done again; the change of the tags is the one moment from which
// on nothing in the volume is ever overwritten by this driver.
func (d *Driver) prepareNew(ctx context.Context, v volume, dev device, use volumeUse) (volume, error) {
	fsType, mkfs, err := d.formatOf(v, use)
	if err != nil {
		return volume{}, err
	}
	if err := d.devices.ReadEnds(ctx, dev.path); err != nil {
		return volume{}, fmt.Errorf("%w: volume %s cannot be read: %w", errProtected, v.ID(), err)
	}
	if err := d.devices.ClearEnds(ctx, dev.path); err != nil {
		return volume{}, fmt.Errorf("clear the ends of volume %s: %w", v.ID(), err)
	}
	add := []string{encodeTag(tagState, string(stateUsed))}
	if !use.block {
		found, err := d.mounter.Probe(ctx, dev.path)
		if err != nil {
			return volume{}, err
		}
		if found != "" {
			return volume{}, stillSigned.errorf(v.ID(), found)
		}
		if err := d.mounter.Format(ctx, dev.path, fsType, mkfs); err != nil {
			return volume{}, err
		}
		add = append(add, encodeTag(tagFS, fsType))
	}
	if err := d.volumes.ChangeTags(ctx, v.Ref(), add, []string{encodeTag(tagState, string(stateNew))}); err != nil {
		return volume{}, err
	}
	klog.FromContext(ctx).V(2).Info("Volume taken into use", "volumeID", v.ID(), "fsType", fsType, "device", dev.path)
	v.State, v.FSType = stateUsed, fsType
	return v, nil
}

// formatOf decides what a new volume is formatted with, and how.
func (d *Driver) formatOf(v volume, use volumeUse) (fsType string, options []string, err error) {
	if use.block {
		return "", nil, nil
	}
	if fsType = use.fsType; fsType == "" {
		fsType = use.context[contextFilesystem]
	}
	if fsType == "" {
		// A PersistentVolume made by hand, without the context of CreateVolume.
		pool, err := d.pool(v.Pool)
		if err != nil {
			return "", nil, fmt.Errorf("file system of volume %s: %w: %w", v.ID(), errPrecondition, err)
		}
		fsType = string(pool.DefaultFilesystem)
	}
	options, err = parseMkfsOptions(fsType, use.context[capacity.ParamMkfsOptions])
	return fsType, options, err
}

// checkUsed looks whether a volume that is in use fits the request. It never
// writes: what it does not like is reported and left as it is.
func (d *Driver) checkUsed(ctx context.Context, v volume, dev device, use volumeUse) error {
	if use.block {
		if v.FSType != "" {
			return holdsFilesystem.errorf(v.ID(), v.FSType)
		}
		return nil
	}
	if v.FSType == "" {
		return holdsBlockData.errorf(v.ID())
	}
	if use.fsType != "" && use.fsType != v.FSType {
		return holdsOtherFilesystem.errorf(v.ID(), v.FSType, use.fsType)
	}
	found, err := d.mounter.Probe(ctx, dev.path)
	switch {
	case err != nil:
		return err
	case found == "":
		return formattedButBlank.errorf(v.ID(), v.FSType, dev.path)
	case found != v.FSType:
		return formattedButOther.errorf(v.ID(), v.FSType, dev.path, found)
	}
	return nil
}
