package controller

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
)

// Reasons of events about volumes of lost nodes.
const (
	reasonVolumeUnreachable = "VolumeOnLostNode"
	reasonClaimDeleted      = "LostNodeClaimDeleted"
	reasonVolumeDeleted     = "LostNodeVolumeDeleted"
	reasonDeletionFinished  = "LostNodeDeletionFinished"
	reasonBadPolicy         = "UnknownLostNodePolicy"
)

// target is what a step is about, as the API server has it.
type target struct {
	volume *v1.PersistentVolume
	claim  *v1.PersistentVolumeClaim
	class  *storagev1.StorageClass
	host   string
	since  time.Time
}

// reconcileVolume looks at one PersistentVolume and makes its next step if its
// node is lost. It returns when to look again, 0 for when something changes.
func (c *Controller) reconcileVolume(ctx context.Context, name string) (time.Duration, error) {
	v := cached[v1.PersistentVolume](c.volumes, name)
	if v == nil || !isOurs(c.driverName, v) {
		return 0, nil
	}
	host := c.hostOf(v)
	if host == "" {
		return 0, nil
	}
	since, isLost, again := c.lost(host)
	if !isLost {
		return again, nil
	}
	seen := target{volume: v, claim: c.claimOf(v), class: c.classNamed(v.Spec.StorageClassName), host: host, since: since}
	c.checkPolicy(seen.class)
	next := nextStep(c.driverName, v, seen.claim, seen.class)
	switch next {
	case stepNone:
		return 0, nil
	case stepReport:
		c.notices.say(seen.claim, seen.claim.UID, v1.EventTypeWarning, reasonVolumeUnreachable, c.unreachable(seen), c.clock.Now())
		return c.settings.EventInterval, nil
	}
	return c.act(ctx, next, seen)
}

// act makes a step that changes something.
func (c *Controller) act(ctx context.Context, next step, seen target) (time.Duration, error) {
	logger := klog.FromContext(ctx).WithValues("step", next.String(), "volume", seen.volume.Name, "node", seen.host)
	if l := c.countLosses(); l.brake() {
		logger.V(2).Info("Nothing is done: too many nodes are missing", "missing", l.missing, "known", l.known, "allowed", l.allowed)
		c.metrics.step(next.String(), resultBrake)
		c.notices.say(seen.volume, seen.volume.UID, v1.EventTypeWarning, reasonBrake,
			fmt.Sprintf("Nothing is done about the volume of missing node %s: %v", seen.host, l), c.clock.Now())
		return brakeRecheck, nil
	}
	live, confirmed, err := c.confirm(ctx, next, seen)
	if err != nil {
		c.metrics.step(next.String(), resultError)
		return 0, fmt.Errorf("confirming that %s of volume %s is right: %w", next, seen.volume.Name, err)
	}
	if !confirmed {
		logger.V(4).Info("Nothing is done: the API server knows better than the caches")
		return brakeRecheck, nil
	}
	if c.settings.DryRun {
		logger.Info("Dry run: the step is left out")
		c.metrics.step(next.String(), resultDryRun)
		c.tell(next, live, "Dry run, nothing is changed. Otherwise: ")
		return c.settings.EventInterval, nil
	}
	if err := c.write(ctx, next, live); err != nil {
		return 0, c.failed(next.String(), fmt.Errorf("%s of volume %s: %w", next, seen.volume.Name, err))
	}
	logger.Info("The step is made", "missingSince", live.since)
	c.metrics.step(next.String(), resultDone)
	c.tell(next, live, "")
	return 0, nil
}

// confirm reads again what the step is about, and last of all whether the node
// is gone. The write that follows names what was read here.
func (c *Controller) confirm(ctx context.Context, next step, seen target) (live target, confirmed bool, err error) {
	live = target{host: seen.host, since: seen.since}
	if live.volume, err = c.reader.Volume(ctx, seen.volume.Name); err != nil {
		return live, false, missingIsFine(err)
	}
	if ref := live.volume.Spec.ClaimRef; ref != nil && next == stepDeleteClaim {
		if live.claim, err = c.reader.Claim(ctx, ref.Namespace, ref.Name); err != nil {
			return live, false, missingIsFine(err)
		}
		if live.class, err = c.reader.Class(ctx, live.volume.Spec.StorageClassName); err != nil {
			return live, false, missingIsFine(err)
		}
	}
	if live.volume.UID != seen.volume.UID || c.hostOf(live.volume) != seen.host ||
		nextStep(c.driverName, live.volume, live.claim, live.class) != next {
		return live, false, nil
	}
	gone, err := c.reader.NodeGone(ctx, seen.host)
	return live, gone, err
}

func missingIsFine(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (c *Controller) write(ctx context.Context, next step, live target) error {
	switch next {
	case stepDeleteClaim:
		return missingIsFine(c.writer.DeleteClaim(ctx, live.claim))
	case stepDeleteVolume:
		return missingIsFine(c.writer.DeleteVolume(ctx, live.volume))
	case stepFinishDeletion:
		return missingIsFine(c.writer.RemoveFinalizer(ctx, live.volume))
	default:
		return nil
	}
}

// failed counts a write that did not happen, and returns the error to try again.
func (c *Controller) failed(name string, err error) error {
	result := resultError
	if apierrors.IsConflict(err) {
		result = resultConflict
	}
	c.metrics.step(name, result)
	return err
}

// tell makes the events of a step.
func (c *Controller) tell(next step, t target, prefix string) {
	now, gone := c.clock.Now(), c.missingFor(t.host, t.since)
	onVolume := func(kind, reason, format string, args ...any) {
		c.notices.say(t.volume, t.volume.UID, kind, reason, prefix+gone+fmt.Sprintf(format, args...), now)
	}
	switch next {
	case stepDeleteClaim:
		c.notices.say(t.claim, t.claim.UID, v1.EventTypeWarning, reasonClaimDeleted, prefix+gone+fmt.Sprintf(
			", and with it PersistentVolume %s. StorageClass %s says %s: the claim is deleted, so that its owner can make an empty one elsewhere",
			t.volume.Name, t.class.Name, PolicyDeleteClaim), now)
		onVolume(v1.EventTypeWarning, reasonClaimDeleted, ". StorageClass %s says %s: claim %s is deleted",
			t.class.Name, PolicyDeleteClaim, klog.KObj(t.claim))
	case stepDeleteVolume:
		onVolume(v1.EventTypeNormal, reasonVolumeDeleted, ". The claim was deleted and the reclaim policy is Delete: the PersistentVolume is deleted. "+
			"Should the node return, its logical volume is kept as an orphan")
	case stepFinishDeletion:
		onVolume(v1.EventTypeNormal, reasonDeletionFinished, ", and with it the provisioner that would finish the deletion of the PersistentVolume: "+
			"its finalizer is removed. Should the node return, its logical volume is kept as an orphan")
	}
}

// unreachable says what a person can do about a claim of a lost node.
func (c *Controller) unreachable(t target) string {
	return fmt.Sprintf("%s, and with it PersistentVolume %s. No pod can use the claim until the node is back. If it will not come back, "+
		"delete the claim (its data is lost), or annotate StorageClass %s with %s=%s",
		c.missingFor(t.host, t.since), t.volume.Name, t.volume.Spec.StorageClassName, LostNodeAnnotation(c.driverName), PolicyDeleteClaim)
}

// checkPolicy complains of an annotation that is no policy.
func (c *Controller) checkPolicy(class *storagev1.StorageClass) {
	if _, err := policyOf(c.driverName, class); err != nil {
		c.notices.say(class, class.UID, v1.EventTypeWarning, reasonBadPolicy, err.Error(), c.clock.Now())
	}
}
