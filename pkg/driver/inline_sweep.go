package driver

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/klog/v2"
)

// sweepInterval is how often inline volumes without a pod are looked for. The
// look itself starts no process.
const sweepInterval = time.Minute

// sweepInline deletes, until ctx ends, the inline volumes whose pod is gone:
// kubelet does not call NodeUnpublishVolume for a volume that it believes was
// never published, such as one whose NodePublishVolume it gave up.
func (d *Driver) sweepInline(ctx context.Context) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		if err := guard(ctx, func() error { return d.sweepOnce(ctx) }); err != nil {
			klog.FromContext(ctx).V(2).Info("Inline volumes without a pod are not looked for yet", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// sweepOnce begins the deletion of every abandoned inline volume and waits for
// none: a device that hangs must not keep the others.
func (d *Driver) sweepOnce(ctx context.Context) error {
	volumes, err := d.abandoned(ctx)
	for _, v := range volumes {
		go d.deleteAbandoned(ctx, v)
	}
	return err
}

// abandoned returns the inline volumes without a pod, as far as it can be told.
// Those whose deletion has begun are for doChores.
func (d *Driver) abandoned(ctx context.Context) ([]volume, error) {
	inv, err := d.inventory(ctx)
	if err != nil {
		return nil, err
	}
	var found []volume
	for _, v := range inv.volumes {
		if v.EphemeralPodUID == "" || v.State == stateDeleting {
			continue
		}
		abandoned, err := d.isAbandoned(v)
		if err != nil {
			return found, err
		}
		if abandoned {
			found = append(found, v)
		}
	}
	return found, nil
}

func (d *Driver) deleteAbandoned(ctx context.Context, v volume) {
	logger := klog.FromContext(ctx)
	err := d.operations.run(ctx, lockKey(v.Ref()), opDeletion, func(waitCtx, runCtx context.Context) error {
		inv, err := d.inventory(waitCtx)
		if err != nil {
			return err
		}
		now, ok := inv.find(v.Ref())
		if !ok || now.UUID != v.UUID || now.EphemeralPodUID == "" {
			return nil
		}
		if abandoned, err := d.isAbandoned(now); err != nil || !abandoned {
			return err
		}
		return d.remove(waitCtx, runCtx, now)
	})
	switch {
	case err == nil:
		logger.Info("Deleted an inline volume whose pod is gone", "volumeID", v.ID(), "podUID", v.EphemeralPodUID)
	case !errors.Is(err, errBusy) && !errors.Is(err, errStopping):
		logger.Error(err, "Inline volume whose pod is gone could not be deleted yet", "volumeID", v.ID())
	}
}

// isAbandoned tells whether kubelet has no folder of the pod any more and
// nothing of the volume is mounted. If kubelet's folder of pods itself is not
// there, nothing is known: then every pod would seem to be gone.
func (d *Driver) isAbandoned(v volume) (bool, error) {
	pods := filepath.Join(d.kubeletDir, "pods")
	if _, err := os.ReadDir(pods); err != nil {
		return false, err
	}
	if v.EphemeralPodUID != filepath.Base(v.EphemeralPodUID) {
		return false, nil
	}
	if _, err := os.Lstat(filepath.Join(pods, v.EphemeralPodUID)); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	mounts, err := d.mountsOf(v)
	return err == nil && len(mounts) == 0, err
}
