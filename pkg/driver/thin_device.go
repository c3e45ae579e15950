package driver

import (
	"context"
	"errors"
	"fmt"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// activate makes the volume's device appear.
//
// LVM makes a thin volume in two places, its own metadata and the thin pool's,
// and keeps in the first what it has still to tell the second. If the power fails
// in between, the volume is there and cannot be activated, until LVM tells the
// pool; that it does only together with the next thin volume that is made or
// removed. So one is.
func (d *Driver) activate(ctx context.Context, v volume) (lvm.LogicalVolume, error) {
	lv, err := d.volumes.Activate(ctx, v.Ref())
	if !errors.Is(err, lvm.ErrThinDeviceMissing) {
		return lv, err
	}
	if told := d.tellPool(ctx, v); told != nil {
		return lv, fmt.Errorf("%w; telling thin pool %s of it: %w", err, v.ThinPool, told)
	}
	return d.volumes.Activate(ctx, v.Ref())
}

// tellPool makes LVM tell the volume's thin pool what it has still to be told.
func (d *Driver) tellPool(ctx context.Context, v volume) error {
	name := "messages of " + v.ThinPool
	lvName, err := volumeNameFor(name)
	if err != nil {
		return err
	}
	messenger := lvm.Ref{VolumeGroup: v.VolumeGroup, Name: lvName}
	_, err = d.volumes.Create(ctx, lvm.CreateRequest{
		Ref: messenger, SegmentType: lvm.SegThin, ThinPool: v.ThinPool, SizeBytes: 1, // one extent
		// If we end here, it is a deletion to finish.
		Tags: encodeTags(d.driverName, volume{CSIName: name, Pool: v.Pool, Layout: v.Layout, Wipe: v.Wipe, State: stateDeleting}),
	})
	if err != nil && !errors.Is(err, lvm.ErrExists) {
		return err
	}
	if err := d.volumes.Remove(ctx, messenger); err != nil && !errors.Is(err, lvm.ErrNotFound) {
		return err
	}
	return nil
}
