package driver

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"
)

// resumeInterval is how often volumes whose deletion did not come to its end
// are looked for. The look itself starts no process.
const resumeInterval = time.Minute

// resumeDeletions finishes, until ctx ends, the deletions that were accepted
// and interrupted: by a restart, a power cut, an error of the disk. Whoever
// asked for them may never ask again.
func (d *Driver) resumeDeletions(ctx context.Context) {
	ticker := time.NewTicker(resumeInterval)
	defer ticker.Stop()
	for {
		d.resumeOnce(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// resumeOnce begins with every volume that is being deleted, and waits for none
// longer than ctx: a device that hangs must not keep the others.
func (d *Driver) resumeOnce(ctx context.Context) {
	logger := klog.FromContext(ctx)
	inv, err := d.inventory(ctx)
	if err != nil {
		logger.V(2).Info("Interrupted deletions are not looked for yet", "reason", err.Error())
		return
	}
	for ref, err := range inv.unreadable {
		logger.Error(err, "Volume is left alone", "logicalVolume", ref.String())
	}
	for _, v := range inv.volumes {
		if v.State != stateDeleting {
			continue
		}
		go func() {
			err := d.finishDeletion(ctx, v)
			if err != nil && !errors.Is(err, errBusy) && !errors.Is(err, errStopping) {
				logger.Error(err, "Deletion could not be finished yet", "logicalVolume", v.Ref().String())
			}
		}()
	}
}

// finishDeletion takes up one deletion, if nobody else is at it.
func (d *Driver) finishDeletion(ctx context.Context, v volume) error {
	return d.operations.run(ctx, lockKey(v.Ref()), "deletion", func(waitCtx, runCtx context.Context) error {
		inv, err := d.inventory(waitCtx)
		if err != nil {
			return err
		}
		now, ok := inv.find(v.Ref())
		if !ok || now.State != stateDeleting {
			return nil
		}
		return d.remove(waitCtx, runCtx, now)
	})
}
