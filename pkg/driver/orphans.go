package driver

import (
	"context"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/orphans"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

var _ orphans.Node = (*Driver)(nil)

// seenTagValue is what is written; whoever reads it takes any value for yes.
const seenTagValue = "pv"

func (v volume) isOrphan() bool { return !v.Orphan.IsZero() }

func (v volume) seenTag() string {
	if v.Seen {
		return seenTagValue
	}
	return ""
}

func (v volume) orphanTag() string {
	if v.isOrphan() {
		return v.Orphan.UTC().Format(time.RFC3339)
	}
	return ""
}

// OrphanCandidates is that of [orphans.Node].
func (d *Driver) OrphanCandidates(ctx context.Context) ([]orphans.Volume, error) {
	inv, err := d.inventory(ctx)
	if err != nil {
		return nil, err
	}
	var out []orphans.Volume
	for _, v := range inv.volumes {
		if v.EphemeralPodUID == "" && v.State != stateDeleting {
			out = append(out, inv.orphanCandidate(v))
		}
	}
	return out, nil
}

func (inv *inventory) orphanCandidate(v volume) orphans.Volume {
	poolBytes := v.SizeBytes // of a thin pool: virtual bytes
	if group, ok := inv.state.VolumeGroup(v.VolumeGroup); ok && v.ThinPool == "" {
		poolBytes = v.FootprintExtents * group.ExtentSizeBytes
	}
	asked := createRequest{pool: poolconfig.Pool{Name: v.Pool}, shape: v.shape(), fsType: capacity.Filesystem(v.FSType)}
	return orphans.Volume{
		ID: v.ID(), Name: v.CSIName, UUID: v.UUID, Pool: v.Pool, SizeBytes: v.SizeBytes, PoolBytes: poolBytes,
		Filesystem: v.FSType, Used: v.State == stateUsed, Seen: v.Seen, Orphan: v.Orphan,
		Attributes: asked.volumeContext(v.SizeBytes),
	}
}

// unchanged returns the volume that was looked at, if it still is as it was.
func (inv *inventory) unchanged(was orphans.Volume) (volume, error) {
	ref, err := parseVolumeID(was.ID)
	if err != nil {
		return volume{}, err
	}
	v, ok := inv.find(ref)
	if !ok || v.UUID != was.UUID || v.EphemeralPodUID != "" || v.State == stateDeleting ||
		(v.State == stateUsed) != was.Used || v.Seen != was.Seen || !v.Orphan.Equal(was.Orphan) {
		return volume{}, fmt.Errorf("%w: %s", orphans.ErrChanged, was.ID)
	}
	return v, nil
}

// markTurn bounds the wait for LVM's turn: while a mark waits, calls for the volume
// are answered with Aborted.
const markTurn = 2 * time.Second

// MarkVolume is that of [orphans.Node]. It is one LVM command, or none.
func (d *Driver) MarkVolume(ctx context.Context, was orphans.Volume, seen bool, orphan time.Time) error {
	return d.withOrphan(ctx, was, opMarking, func(waitCtx, _ context.Context) error {
		inv, err := d.inventory(waitCtx)
		if err != nil {
			return err
		}
		now, err := inv.unchanged(was)
		if err != nil {
			return err
		}
		then := now
		then.Seen, then.Orphan = seen, orphan
		turnCtx, cancel := context.WithTimeout(waitCtx, markTurn)
		defer cancel()
		return d.changeMarks(turnCtx, now, then)
	})
}

// DeleteOrphan is that of [orphans.Node]. LVM is asked what is there, because
// nobody will ask for this volume again.
func (d *Driver) DeleteOrphan(ctx context.Context, was orphans.Volume, confirm func(context.Context) error) error {
	return d.withOrphan(ctx, was, opDeletion, func(waitCtx, runCtx context.Context) error {
		inv, err := d.freshInventory(waitCtx)
		if err != nil {
			return err
		}
		now, err := inv.unchanged(was)
		if err != nil {
			return err
		}
		if !now.isOrphan() {
			return fmt.Errorf("%w: %s", orphans.ErrNotOrphan, was.ID)
		}
		if err := confirm(waitCtx); err != nil {
			return err
		}
		return d.remove(waitCtx, runCtx, now)
	})
}

// withOrphan runs effect while no call for the volume can.
func (d *Driver) withOrphan(ctx context.Context, v orphans.Volume, kind operationKind, effect func(waitCtx, runCtx context.Context) error) error {
	ref, err := parseVolumeID(v.ID)
	if err != nil {
		return err
	}
	return d.operations.run(ctx, lockKey(ref), kind, effect)
}

// takeOver ends the marking of a volume that CreateVolume was called for again:
// somebody wants it.
func (d *Driver) takeOver(ctx context.Context, v volume) (volume, error) {
	if !v.isOrphan() {
		return v, nil
	}
	then := v
	then.Orphan = time.Time{}
	if err := d.changeMarks(ctx, v, then); err != nil {
		return volume{}, err
	}
	klog.FromContext(ctx).V(2).Info("Took over a volume that had no PersistentVolume", "volumeID", v.ID())
	return then, nil
}

// changeMarks makes the difference between two sets of marks in one command.
func (d *Driver) changeMarks(ctx context.Context, now, then volume) error {
	var add, remove []string
	for _, tag := range []struct{ key, now, then string }{
		{tagSeen, now.seenTag(), then.seenTag()}, {tagOrphan, now.orphanTag(), then.orphanTag()},
	} {
		if tag.now == tag.then {
			continue
		}
		if tag.now != "" {
			remove = append(remove, encodeTag(tag.key, tag.now))
		}
		if tag.then != "" {
			add = append(add, encodeTag(tag.key, tag.then))
		}
	}
	if len(add)+len(remove) == 0 {
		return nil
	}
	return d.volumes.ChangeTags(ctx, now.Ref(), add, remove)
}
