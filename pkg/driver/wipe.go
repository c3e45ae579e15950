package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/csi-local/csi-local/pkg/blockdev"
	"github.com/csi-local/csi-local/pkg/capacity"
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
			if err := d.checkClosed(v); err != nil {
				return err
			}
		}
		return d.volumes.Remove(waitCtx, v.Ref())
	}
	v, err := d.openable(waitCtx, v)
	if err != nil {
		return err
	}
	if err := d.checkClosed(v); err != nil {
		return err
	}
	if v.State != stateDeleting {
		if err := d.setState(waitCtx, v, stateDeleting); err != nil {
			return err
		}
	}
	// From here on the volume is never handed out again.
	if err := d.wipe(runCtx, v); err != nil {
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
func (d *Driver) openable(ctx context.Context, v volume) (volume, error) {
	lv, err := d.activate(ctx, v)
	if err != nil {
		return volume{}, err
	}
	v.LogicalVolume = lv
	if err := d.devices.Check(v.Path, v.Major, v.Minor); err != nil {
		return volume{}, fmt.Errorf("%w: device of %s: %w", errNotReady, v.Ref(), err)
	}
	return v, nil
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

// wipe makes every byte of the device read as zero. It ends early when the
// driver stops; the next start takes it up again.
func (d *Driver) wipe(ctx context.Context, v volume) error {
	ctx, cancel := d.operations.untilStop(ctx)
	defer cancel()
	logger := klog.FromContext(ctx)
	logger.V(2).Info("Wiping volume", "logicalVolume", v.Ref().String(), "sizeBytes", v.SizeBytes, "policy", d.wipePolicy(v))
	discard := d.wipePolicy(v) == capacity.WipeDiscard
	start := time.Now()
	err := d.devices.Zero(ctx, v.Path, discard, func(doneBytes int64) {
		reportProgress(ctx, fmt.Sprintf("%d %% wiped", percent(doneBytes, v.SizeBytes)))
	})
	if err != nil && context.Cause(ctx) == errStopping { //nolint:errorlint // the cause is the sentinel itself
		return fmt.Errorf("%w: the wipe of %s goes on after the next start", errStopping, v.Ref())
	}
	if err != nil {
		return fmt.Errorf("wipe of %s: %w", v.Ref(), err)
	}
	d.metrics.wipes.Observe(time.Since(start).Seconds())
	return nil
}

// percent is 100 × part / whole, at most 100, for whole > 0.
func percent(part, whole int64) int64 {
	if whole <= 0 {
		return 0
	}
	return int64(min(float64(part)/float64(whole)*100, 100))
}

// setState changes the volume's state tag in one command.
func (d *Driver) setState(ctx context.Context, v volume, state volumeState) error {
	return d.volumes.ChangeTags(ctx, v.Ref(),
		[]string{encodeTag(tagState, string(state))}, []string{encodeTag(tagState, string(v.State))})
}
