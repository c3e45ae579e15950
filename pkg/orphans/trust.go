package orphans

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"
)

// trust is how far the API server's answers are believed. It is guarded by the
// keeper's mu.
type trust struct {
	// failures counts those since the last answer; no looks are made until pausedUntil.
	failures    int
	pausedUntil time.Duration
	// nodeUID is that of this node's Node object; nothing is decided until heldUntil.
	nodeUID   string
	heldUntil time.Duration
	// mostLost tells that most volumes have lost their PersistentVolume, since lostSince.
	mostLost  bool
	lostSince time.Duration
}

// held tells whether something is missing and nothing is decided about it. The
// caller holds mu.
func (k *Keeper) held(now time.Duration) bool {
	return k.doubtful() || k.trust.mostLost || now < k.trust.heldUntil
}

// doubtful tells whether an answer was not believed. The caller holds mu.
func (k *Keeper) doubtful() bool {
	for _, r := range k.records {
		if r.doubt {
			return true
		}
	}
	return false
}

// checkNode matches ErrDoubt unless the API server has this node's Node object,
// and it is the one that it was. An API server that was set up anew, or that is
// another cluster's, is found out in this way.
func (k *Keeper) checkNode(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, k.opts.Settings.RequestTimeout)
	defer cancel()
	uid, err := k.opts.API.NodeUID(ctx)
	if errors.Is(err, ErrNoNode) {
		return fmt.Errorf("%w: %w", ErrDoubt, err)
	}
	if err != nil {
		return err
	}
	now := k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.trust.nodeUID != "" && uid != k.trust.nodeUID {
		k.trust.heldUntil = now + k.opts.Settings.Hold
		for _, r := range k.records {
			r.missing = false // whoever makes PersistentVolumes may need as long to find them again
		}
	}
	k.trust.nodeUID = uid
	if now < k.trust.heldUntil {
		return fmt.Errorf("%w: the Node object %s was made anew", ErrDoubt, k.opts.NodeName)
	}
	return nil
}

// doubted leaves the volume as it is. Operators hear of it once.
func (k *Keeper) doubted(ctx context.Context, r *record, now time.Duration, err error) {
	k.mu.Lock()
	r.due = now + k.around(k.opts.Settings.Recheck)
	told := k.doubtful()
	r.doubt = true
	k.mu.Unlock()
	if !told {
		k.tell(ctx, Notice{
			Reason: "OrphansHeld", Warning: true,
			Message: fmt.Sprintf("PersistentVolumes are missing, and nothing is decided about their volumes: %v", err),
		})
	}
}

// failed pauses all looks: what keeps one request from being answered keeps the
// others. The others' times move on, so that they do not come all at once afterwards.
func (k *Keeper) failed(ctx context.Context, r *record, now time.Duration, err error) {
	s := k.opts.Settings
	k.mu.Lock()
	defer k.mu.Unlock()
	pause := s.BackoffMax
	if k.trust.failures < 16 { // beyond that the shift would be over the maximum by far
		pause = min(s.BackoffBase<<k.trust.failures, s.BackoffMax)
	}
	k.trust.failures++
	pause = k.part(pause, 0.5, 1)
	k.trust.pausedUntil = now + pause
	for _, other := range k.records {
		other.due += pause
	}
	r.due = max(r.due, now+k.around(s.Recheck))
	klog.FromContext(ctx).V(2).Info("PersistentVolume could not be looked for", "persistentVolume", r.volume.Name, "reason", err.Error(), "pause", pause)
}

// Fewer volumes than this that lose their PersistentVolume at once are no
// disaster of the API server's, whatever share they are.
const fewLost = 3

// mostAreLost says why the loss of a PersistentVolume is not believed yet, or
// nothing. All volumes that had one are looked at again first. If most of them have
// lost it, it is believed only after the hold.
func (k *Keeper) mostAreLost(ctx context.Context, now time.Duration) string {
	k.mu.Lock()
	s := k.opts.Settings
	known, lost, unasked := k.countLost(now)
	if unasked > 0 {
		k.mu.Unlock()
		return fmt.Sprintf("%d other volumes are looked at first", unasked)
	}
	before := k.trust.mostLost
	k.trust.mostLost = lost >= fewLost && 2*lost > known
	if k.trust.mostLost && !before {
		k.trust.lostSince = now
	}
	held := k.trust.mostLost && now-k.trust.lostSince < s.Hold
	k.mu.Unlock()
	if !held {
		return ""
	}
	if !before {
		k.tell(ctx, Notice{
			Reason: "OrphansHeld", Warning: true,
			Message: fmt.Sprintf("%d of the %d PersistentVolumes of this node's volumes are missing at once. Was the API server restored from a backup? "+
				"Nothing is decided about their volumes for %v", lost, known, s.Hold),
		})
	}
	return "most PersistentVolumes are missing at once"
}

// countLost counts the volumes that had a PersistentVolume and are no orphans, those
// of them that have lost it, and those that were not looked at since the first
// loss, whose time has come now. The caller holds mu.
func (k *Keeper) countLost(now time.Duration) (known, lost, unasked int) {
	first := now
	for _, r := range k.records {
		if r.lost() {
			first = min(first, r.since)
		}
	}
	for _, r := range k.records {
		if r.volume.IsOrphan() || r.volume.Kind() == Leaked {
			continue
		}
		known++
		switch {
		case r.missing:
			lost++
		case !r.answered || r.looked < first:
			unasked++
			r.due = min(r.due, now)
		}
	}
	return known, lost, unasked
}

// lost tells that the volume had a PersistentVolume, seems to have none, and is not
// marked yet.
func (r *record) lost() bool {
	return r.missing && !r.volume.IsOrphan() && r.volume.Kind() == Retained
}

// settle ends the doubt about lost PersistentVolumes when all are back. The caller holds mu.
func (k *Keeper) settle() {
	if !k.trust.mostLost {
		return
	}
	for _, r := range k.records {
		if r.lost() {
			return
		}
	}
	k.trust.mostLost = false
}
