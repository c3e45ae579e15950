package orphans

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"
)

// finding is what a look has found.
type finding string

const (
	present finding = "present"
	missing finding = "missing"
	// foreign: there is a PersistentVolume of that name, and it is that of another volume.
	foreign finding = "foreign"
)

// ask looks for the volume's PersistentVolume. The cache may be behind, so only
// what it has is believed.
func (k *Keeper) ask(ctx context.Context, v Volume) (finding, error) {
	if found, err := k.askOnce(ctx, v, true); found == present || err != nil {
		return found, err
	}
	return k.askOnce(ctx, v, false)
}

func (k *Keeper) askOnce(ctx context.Context, v Volume, cached bool) (finding, error) {
	ctx, cancel := context.WithTimeout(ctx, k.opts.Settings.RequestTimeout)
	defer cancel()
	answer, err := k.opts.API.PersistentVolume(ctx, v.Name, cached)
	switch {
	case err != nil:
		return "", err
	case !answer.Found:
		return missing, nil
	case answer.Driver == k.opts.DriverName && answer.Handle == v.ID:
		return present, nil
	default:
		return foreign, nil
	}
}

// look asks for one volume and acts on the answer.
func (k *Keeper) look(ctx context.Context, r *record) {
	found, err := k.ask(ctx, r.volume)
	if err == nil && found != present {
		err = k.checkNode(ctx)
	}
	now := k.now()
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, ErrDoubt):
		k.opts.Metrics.looks.WithLabelValues("doubt").Inc()
		k.doubted(ctx, r, now, err)
	case err != nil:
		k.opts.Metrics.looks.WithLabelValues("error").Inc()
		k.failed(ctx, r, now, err)
	default:
		k.opts.Metrics.looks.WithLabelValues(string(found)).Inc()
		k.answered(r, now, found)
		if found == present {
			k.keep(ctx, r, now)
		} else {
			k.decide(ctx, r, now)
		}
	}
}

// answered notes an answer that counts.
func (k *Keeper) answered(r *record, now time.Duration, found finding) {
	k.mu.Lock()
	defer k.mu.Unlock()
	doubtful := k.trust.mostLost && r.volume.Kind() == Leaked
	if !r.missing || now-r.looked > k.opts.Settings.gap() || doubtful {
		r.since = now
	}
	r.missing, r.foreign = found != present, found == foreign
	r.answered, r.looked, r.doubt = true, now, false
	r.due = now + k.around(k.opts.Settings.Recheck)
	k.trust.failures = 0
	k.settle()
}

// effectTimeout bounds the wait for LVM; a leaked volume needs no wipe. What takes
// longer goes on, and a later look sees what came of it.
const effectTimeout = 30 * time.Second

// markAgain is when a mark that could not be made is tried again.
const markAgain = 10 * time.Second

// mark writes what was found out into the volume's tags.
func (k *Keeper) mark(ctx context.Context, r *record, now time.Duration, seen bool, orphan time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, effectTimeout)
	defer cancel()
	err := k.opts.Node.MarkVolume(ctx, r.volume, seen, orphan)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Volume could not be marked and will be looked at again", "volumeID", r.volume.ID, "reason", err.Error())
		r.due = now + min(markAgain, k.opts.Settings.Recheck)
		return false
	}
	r.volume.Seen, r.volume.Orphan = seen, orphan
	return true
}

// keep acts on a PersistentVolume that is there. A volume that a pod has used
// is known to have had one, so nothing needs to be written for it.
func (k *Keeper) keep(ctx context.Context, r *record, now time.Duration) {
	was := r.volume
	if was.IsOrphan() || was.Kind() == Leaked {
		if !k.mark(ctx, r, now, true, time.Time{}) {
			return
		}
	}
	k.mu.Lock()
	r.due = now + k.around(k.opts.Settings.Interval)
	k.mu.Unlock()
	if was.IsOrphan() {
		k.tell(ctx, Notice{
			Reason: "OrphanReturned", Message: fmt.Sprintf("Volume %s has its PersistentVolume %s again, and counts again", was.ID, was.Name),
		})
	}
}

// decide acts on a PersistentVolume that is missing.
func (k *Keeper) decide(ctx context.Context, r *record, now time.Duration) {
	if r.volume.IsOrphan() {
		k.reclaim(ctx, r, now)
		return
	}
	if r.volume.Kind() == Retained {
		if why := k.mostAreLost(ctx, now); why != "" {
			klog.FromContext(ctx).V(2).Info("Not decided yet", "volumeID", r.volume.ID, "persistentVolume", r.volume.Name, "reason", why)
			return
		}
	}
	if !k.mark(ctx, r, now, r.volume.Seen || r.foreign, k.wall().UTC().Truncate(time.Second)) {
		return
	}
	k.mu.Lock()
	v, next := r.volume, k.fate(r, now)
	k.mu.Unlock()
	k.tell(ctx, Notice{
		Reason: "OrphanQuarantined", Warning: true,
		Message: fmt.Sprintf("Volume %s of pool %s has no PersistentVolume %s (%s); its %d bytes of the pool are no longer published. It is %s; see csi-local orphans",
			v.ID, v.Pool, v.Name, v.Kind(), v.PoolBytes, next),
	})
}

// reclaim deletes a leaked volume when its time has come and nothing is in doubt.
func (k *Keeper) reclaim(ctx context.Context, r *record, now time.Duration) {
	s := k.opts.Settings
	if s.Policy != PolicyDelete || r.volume.Kind() != Leaked || now-r.since < s.Grace || k.trust.mostLost || !k.anyAnswers(ctx, r) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, effectTimeout)
	defer cancel()
	v := r.volume
	err := k.opts.Node.DeleteOrphan(ctx, v, func(ctx context.Context) error { return k.confirm(ctx, v) })
	if err != nil {
		klog.FromContext(ctx).Info("Orphan is not deleted now and will be looked at again", "volumeID", v.ID, "reason", err.Error())
		return
	}
	k.deleted(ctx, v, fmt.Sprintf("nobody ever used it, and it had no PersistentVolume %s for %v", v.Name, (now-r.since).Round(time.Second)))
}

// anyAnswers tells whether the PersistentVolume of some other volume is found,
// where there is one that should have it: an API server that has none at all is
// not believed.
func (k *Keeper) anyAnswers(ctx context.Context, r *record) bool {
	for _, other := range k.records {
		if other == r || other.volume.IsOrphan() || other.volume.Kind() == Leaked {
			continue
		}
		found, err := k.askOnce(ctx, other.volume, false)
		if err == nil && found == present {
			return true
		}
		k.mu.Lock()
		other.due = min(other.due, k.now())
		k.mu.Unlock()
		return false
	}
	return true
}

// confirm says nil only if the PersistentVolume is missing beyond doubt.
func (k *Keeper) confirm(ctx context.Context, v Volume) error {
	found, err := k.askOnce(ctx, v, false)
	switch {
	case err != nil:
		return fmt.Errorf("%w: PersistentVolume %s: %w", ErrDoubt, v.Name, err)
	case found != missing:
		return fmt.Errorf("%w: %s", ErrExists, v.Name)
	}
	return k.checkNode(ctx)
}

func (k *Keeper) deleted(ctx context.Context, v Volume, why string) {
	k.opts.Metrics.deleted.WithLabelValues(string(v.Kind())).Inc()
	k.tell(ctx, Notice{Reason: "OrphanDeleted", Message: fmt.Sprintf("Volume %s of pool %s was deleted: %s", v.ID, v.Pool, why)})
}

func (k *Keeper) tell(ctx context.Context, notice Notice) {
	klog.FromContext(ctx).Info(notice.Message, "reason", notice.Reason)
	k.opts.Notify(notice)
}
