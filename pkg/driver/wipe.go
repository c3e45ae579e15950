package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/csi-local/csi-local/pkg/blockdev"
	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/lvm"
)

// remove makes a volume's bytes unreadable, as its wipe policy says, and then
// removes it. It refuses while the device is open. Each step leaves a state in
// which doing all of it again ends the same. The caller has the volume's lock;
// waitCtx and runCtx are those of operations.run. Inline volumes are removed in
// the same way.
func (d *Driver) remove(waitCtx, runCtx context.Context, v volume) error {
	if !d.needsWipe(v) {
		// LVM refuses to remove an open volume, in words that help less.
		if v.Active && d.devices.Check(v.Path, v.Major, v.Minor) == nil {
			if err := d.awaitClosed(waitCtx, v); err != nil {
				return err
			}
		}
		return d.volumes.Remove(waitCtx, v.Ref())
	}
	v, dev, err := d.openable(waitCtx, v)
	if err != nil {
		return err
	}
	if err := d.awaitClosed(waitCtx, v); err != nil {
		return err
	}
	if err := d.condemn(waitCtx, v); err != nil {
		return err
	}
	// From here on the volume is never handed out again.
	if err := d.wipe(runCtx, v, dev); err != nil {
		return err
	}
	return d.volumes.Remove(runCtx, v.Ref())
}

// needsWipe tells whether the volume's extents may hold bytes of a tenant that
// the next one could read. A volume that was never handed out holds nobody's.
// A thin pool zeroes blocks when it hands them out, and a pool that does not is
// refused, so a thin volume's blocks need no wipe.
func (d *Driver) needsWipe(v volume) bool {
	if v.State == stateNew || v.ThinPool != "" {
		return false
	}
	return d.wipePolicy(v) != capacity.WipeUnsafeNone
}

// wipePolicy is the stricter one of the policy under which the volume was made
// and the pool's policy now.
func (d *Driver) wipePolicy(v volume) capacity.WipePolicy {
	policy := capacity.WipePolicy(v.Wipe)
	for _, pool := range d.pools() {
		if pool.Name == v.Pool && pool.Wipe.AtLeast(policy) {
			policy = pool.Wipe
		}
	}
	if !policy.AtLeast(capacity.WipeUnsafeNone) {
		return capacity.WipeZero // a tag that cannot be read is no permission
	}
	return policy
}

// openable makes sure that the volume's device node is there and is the
// volume's; if it is, no process is started. The state may be behind: a volume
// that was deactivated and activated by hand has another number, and the old
// one may be another's.
func (d *Driver) openable(ctx context.Context, v volume) (volume, device, error) {
	lv, err := d.activate(ctx, v)
	if err != nil {
		return volume{}, device{}, err
	}
	v.LogicalVolume = lv
	path, err := d.findDevice(v, numberOf(v))
	if err != nil {
		return volume{}, device{}, fmt.Errorf("%w: device of %s: %w", errNotReady, v.Ref(), err)
	}
	return v, device{path: path, number: numberOf(v)}, nil
}

// closeWait bounds the wait for openers that come and go: a udevd opens each device
// for a moment after it was changed, grown or closed by its last writer.
const closeWait = time.Second

// awaitClosed is checkClosed, for openers that stay. A mount stays: whoever unmounts it
// waits for the lock that the caller has.
func (d *Driver) awaitClosed(ctx context.Context, v volume) error {
	ctx, cancel := context.WithTimeout(ctx, closeWait)
	defer cancel()
	tick := time.NewTicker(devicePoll)
	defer tick.Stop()
	for {
		err := d.checkClosed(v)
		if !errors.Is(err, errPrecondition) {
			return err
		}
		if mounts, mountsErr := d.mountsOf(v); mountsErr != nil || len(mounts) > 0 {
			return errors.Join(err, mountsErr)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// checkClosed refuses a volume whose device is open: mounted on this node,
// in use by a process, or part of another device. The kernel is asked, not LVM.
func (d *Driver) checkClosed(v volume) error {
	openers, err := d.devices.OpenCount(v.Major, v.Minor)
	switch {
	case errors.Is(err, blockdev.ErrNoDevice):
		return nil // deactivated meanwhile
	case err != nil:
		return fmt.Errorf("openers of %s: %w", v.Ref(), err)
	case openers > 0:
		return volumeInUse.errorf(v.ID(), openers, v.Path)
	}
	return nil
}

// condemn sets the state tag to deleting, unless there is a thick snapshot of the
// volume. LVM would refuse to remove its origin, but only after the wipe, which
// copies every block into the snapshot until that is full and lost. Snapshots are
// made by hand, so it is LVM that looks, also where a deletion is taken up again.
func (d *Driver) condemn(ctx context.Context, v volume) error {
	var remove []string
	if v.State != stateDeleting {
		remove = []string{encodeTag(tagState, string(v.State))}
	}
	err := d.volumes.ChangeTagsUnlessOrigin(ctx, v.Ref(), []string{encodeTag(tagState, string(stateDeleting))}, remove)
	if !errors.Is(err, lvm.ErrInUse) {
		return err
	}
	inv, invErr := d.inventory(ctx)
	if invErr != nil {
		return err
	}
	group, _ := inv.state.VolumeGroup(v.VolumeGroup)
	if snapshot, has := snapshotOf(group, v.Name); has {
		return deletionOfOrigin.errorf(v.ID(), snapshot)
	}
	return err
}

// snapshotOf returns the name of a thick snapshot of the volume, if it has one.
func snapshotOf(group lvm.VolumeGroup, name string) (snapshot string, has bool) {
	for _, lv := range group.LogicalVolumes {
		if lv.SegmentType == lvm.SegSnapshot && lv.Origin == name {
			return lv.Name, true
		}
	}
	return "", false
}

// wipe makes every byte of the device read as zero, when it is its turn. It ends
// early when the driver stops; the next start takes it up again.
func (d *Driver) wipe(ctx context.Context, v volume, dev device) error {
	ctx, cancel := d.operations.untilStop(ctx)
	defer cancel()
	release, err := d.wipes.take(ctx, v.VolumeGroup)
	if err != nil {
		return wipeStopped(v)
	}
	defer release()
	reportProgress(ctx, "0 % wiped")
	logger := klog.FromContext(ctx)
	logger.V(2).Info("Wiping volume", "logicalVolume", v.Ref().String(), "sizeBytes", v.SizeBytes, "policy", d.wipePolicy(v))
	discard := d.wipePolicy(v) == capacity.WipeDiscard
	start := time.Now()
	err = d.devices.Zero(ctx, dev.path, discard, func(doneBytes int64) {
		reportProgress(ctx, fmt.Sprintf("%d %% wiped", percent(doneBytes, v.SizeBytes)))
	})
	if err != nil && context.Cause(ctx) == errStopping { //nolint:errorlint // the cause is the sentinel itself
		return wipeStopped(v)
	}
	if err != nil {
		return fmt.Errorf("wipe of %s: %w", v.Ref(), err)
	}
	d.metrics.wipes.Observe(time.Since(start).Seconds())
	return nil
}

func wipeStopped(v volume) error {
	return fmt.Errorf("%w: the wipe of %s goes on after the next start", errStopping, v.Ref())
}

// percent is 100 × part / whole, at most 100, for whole > 0.
func percent(part, whole int64) int64 {
	if whole <= 0 {
		return 0
	}
	return int64(min(float64(part)/float64(whole)*100, 100))
}
