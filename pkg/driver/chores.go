package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

// choreInterval is how often doChores looks for something to do. The look
// itself starts no process.
const choreInterval = time.Minute

// doChores does, until ctx ends, what nobody calls for: it finishes deletions
// that were accepted and interrupted (by a restart, a power cut, an error of
// the disk; whoever asked for them may never ask again), and activates thin
// pools, which no other program of the node does after a reboot.
func (d *Driver) doChores(ctx context.Context) {
	ticker := time.NewTicker(choreInterval)
	defer ticker.Stop()
	for {
		if err := guard(ctx, func() error { return d.doChoresOnce(ctx) }); err != nil {
			klog.FromContext(ctx).V(2).Info("Chores are not looked for yet", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// doChoresOnce begins all that there is to do, and waits for none of it: a
// device that hangs must not keep the others.
func (d *Driver) doChoresOnce(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	inv, err := d.inventory(ctx)
	if err != nil {
		return err
	}
	for ref, err := range inv.unreadable {
		logger.Error(err, "Volume is left alone", "logicalVolume", ref.String())
	}
	begin := func(ref lvm.Ref, what string, chore func(context.Context) error) {
		go func() {
			err := guard(ctx, func() error { return chore(ctx) })
			if err != nil && !errors.Is(err, errBusy) && !errors.Is(err, errStopping) {
				logger.Error(err, "Chore failed and will be tried again", "chore", what, "logicalVolume", ref.String())
			}
		}()
	}
	for _, pool := range d.pools() {
		if ref, inactive := inv.inactiveThinPool(pool); inactive {
			begin(ref, "activation", func(ctx context.Context) error { return d.activatePool(ctx, inv, pool) })
		}
	}
	for _, v := range inv.volumes {
		if v.State == stateDeleting {
			begin(v.Ref(), "deletion", func(ctx context.Context) error { return d.finishDeletion(ctx, v.Ref()) })
		}
	}
	return nil
}

// finishDeletion takes up one deletion, if nobody else is at it.
func (d *Driver) finishDeletion(ctx context.Context, ref lvm.Ref) error {
	return d.operations.run(ctx, lockKey(ref), opDeletion, func(waitCtx, runCtx context.Context) error {
		inv, err := d.inventory(waitCtx)
		if err != nil {
			return err
		}
		now, ok := inv.find(ref)
		if !ok || now.State != stateDeleting {
			return nil
		}
		return d.remove(waitCtx, runCtx, now)
	})
}

// inactiveThinPool returns the thin pool of a pool if it is there and inactive.
func (inv *inventory) inactiveThinPool(pool poolconfig.Pool) (lvm.Ref, bool) {
	ref := lvm.Ref{VolumeGroup: pool.VolumeGroup, Name: pool.ThinPool}
	if pool.Type != capacity.PoolThin {
		return ref, false
	}
	lv, ok := inv.state.LogicalVolume(ref)
	return ref, ok && lv.SegmentType == lvm.SegThinPool && !lv.Active
}

// activatePool activates the pool's thin pool if it is inactive: LVM does not
// know how full an inactive one is, and without that it takes no volumes.
func (d *Driver) activatePool(ctx context.Context, inv *inventory, pool poolconfig.Pool) error {
	ref, inactive := inv.inactiveThinPool(pool)
	if !inactive {
		return nil
	}
	if _, err := d.volumes.Activate(ctx, ref); err != nil {
		return fmt.Errorf("pool %s on node %s: %w", pool.Name, d.nodeName, err)
	}
	return nil
}
