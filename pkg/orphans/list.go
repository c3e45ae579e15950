package orphans

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// Entry is one orphan as operators see it.
type Entry struct {
	// VolumeID is the CSI volume ID, Name the CSI name and that of the
	// PersistentVolume that is missing.
	VolumeID  string `json:"volumeID"`
	Name      string `json:"name"`
	Pool      string `json:"pool"`
	SizeBytes int64  `json:"sizeBytes"`
	PoolBytes int64  `json:"poolBytes"`
	Kind      Kind   `json:"kind"`
	// Since is when the volume was marked, by the node's clock.
	Since time.Time `json:"since"`
	// Next says what will happen to it.
	Next string `json:"next"`
}

// List returns the orphans, sorted by volume ID.
func (k *Keeper) List(ctx context.Context) ([]Entry, error) {
	volumes, err := k.opts.Node.OrphanCandidates(ctx)
	if err != nil {
		return nil, err
	}
	now := k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	entries := []Entry{}
	for _, v := range volumes {
		if !v.IsOrphan() {
			continue
		}
		r := k.records[v.UUID]
		if r == nil {
			r = &record{since: now}
		}
		shown := *r
		shown.volume = v
		entries = append(entries, Entry{
			VolumeID: v.ID, Name: v.Name, Pool: v.Pool, SizeBytes: v.SizeBytes, PoolBytes: v.PoolBytes,
			Kind: v.Kind(), Since: v.Orphan, Next: k.fate(&shown, now),
		})
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.VolumeID, b.VolumeID) })
	return entries, nil
}

// fate says what will happen to an orphan. The caller holds mu.
func (k *Keeper) fate(r *record, now time.Duration) string {
	s := k.opts.Settings
	switch {
	case r.foreign:
		return "kept: the PersistentVolume of its name is that of another volume"
	case r.volume.Kind() == Retained || s.Policy == PolicyKeep:
		return "kept until an operator decides"
	case k.held(now):
		return "kept while the API server's answers are in doubt"
	case !r.missing:
		return fmt.Sprintf("deleted %v after the next look, if its PersistentVolume stays missing", s.Grace)
	default:
		left := max(s.Grace-(now-r.since), 0).Round(time.Second)
		return fmt.Sprintf("deleted in %v, if its PersistentVolume stays missing", left)
	}
}

// Find returns the orphan with that CSI name or volume ID; else the error matches
// [ErrNotOrphan].
func (k *Keeper) Find(ctx context.Context, name string) (Volume, error) {
	volumes, err := k.opts.Node.OrphanCandidates(ctx)
	if err != nil {
		return Volume{}, err
	}
	err = fmt.Errorf("%w: no volume of this node has the name %q", ErrNotOrphan, name)
	for _, v := range volumes {
		switch {
		case name != v.Name && name != v.ID:
		case v.IsOrphan():
			return v, nil
		default:
			err = fmt.Errorf("%w: volume %s is in order: its PersistentVolume %s exists, or it is not yet certain that it is missing",
				ErrNotOrphan, v.ID, v.Name)
		}
	}
	return Volume{}, err
}

// Delete deletes the orphan with that CSI name or volume ID, of either kind, with
// its data. The error matches [ErrNotOrphan], [ErrExists] if it has a
// PersistentVolume after all, [ErrDoubt] if that cannot be found out. When ctx
// ends first, its error is returned and the deletion goes on.
func (k *Keeper) Delete(ctx context.Context, name string) (Volume, error) {
	v, err := k.Find(ctx, name)
	if err != nil {
		return Volume{}, err
	}
	err = k.opts.Node.DeleteOrphan(ctx, v, func(ctx context.Context) error { return k.confirm(ctx, v) })
	if err != nil {
		return Volume{}, fmt.Errorf("volume %s: %w", v.ID, err)
	}
	k.deleted(ctx, v, "an operator asked for it")
	return v, nil
}
