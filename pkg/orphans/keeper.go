package orphans

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
)

// Options configure a [Keeper]. All fields without a stated default are required.
type Options struct {
	DriverName, NodeName string
	Node                 Node
	API                  API
	Settings             Settings
	Metrics              *Metrics
	// Notify tells operators; it must not block. If nil, only the log tells.
	Notify func(Notice)
}

// Keeper looks for the PersistentVolume of each volume of a node, one at a time.
// Run has a goroutine of its own; the other methods may be called at any time
// from any goroutine.
type Keeper struct {
	opts   Options
	now    func() time.Duration // since the keeper was made
	wall   func() time.Time
	random func() float64

	mu      sync.Mutex
	records map[string]*record // by UUID
	trust   trust
}

// record is what is known of one volume. The goroutine of Run alone changes it,
// with mu held, so it reads it without.
type record struct {
	volume Volume
	// due is when to look for its PersistentVolume next.
	due time.Duration
	// looked is when the last answer came; it means something if answered is set.
	answered bool
	looked   time.Duration
	// missing tells that the last answer was no; since is when that began.
	missing bool
	since   time.Duration
	// foreign tells that the PersistentVolume of its name is that of another volume.
	foreign bool
	// doubt tells that it seems to be missing, and that this was not believed.
	doubt bool
}

// New makes a keeper; Run starts it.
func New(opts Options) (*Keeper, error) {
	problems := []error{opts.Settings.Validate()}
	for what, ok := range map[string]bool{
		"DriverName is empty": opts.DriverName != "", "NodeName is empty": opts.NodeName != "", "Node is nil": opts.Node != nil,
		"API is nil": opts.API != nil, "Metrics is nil": opts.Metrics != nil,
	} {
		if !ok {
			problems = append(problems, errors.New("orphans options: "+what))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	start := time.Now()
	return newKeeper(opts, func() time.Duration { return time.Since(start) }, rand.Float64), nil //nolint:gosec // spreads load, guards nothing
}

func newKeeper(opts Options, now func() time.Duration, random func() float64) *Keeper {
	if opts.Notify == nil {
		opts.Notify = func(Notice) {}
	}
	return &Keeper{opts: opts, now: now, wall: time.Now, random: random, records: map[string]*record{}}
}

// Run looks until ctx ends. It never fails: what cannot be found out now is asked
// again.
func (k *Keeper) Run(ctx context.Context) {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithName("orphans"))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(k.step(ctx))
	}
}

// step looks at the volume that is due most, if one is, and returns after what
// time to call it again.
func (k *Keeper) step(ctx context.Context) time.Duration {
	volumes, err := k.opts.Node.OrphanCandidates(ctx)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Volumes are not known yet", "reason", err.Error())
		return k.opts.Settings.FirstLook
	}
	r, wait := k.next(k.now(), volumes)
	if r == nil {
		return wait
	}
	k.look(ctx, r)
	return k.opts.Settings.Pause
}

// next takes in what the node says and chooses the volume to look at, or says how
// long there is none.
func (k *Keeper) next(now time.Duration, volumes []Volume) (*record, time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.take(now, volumes)
	k.opts.Metrics.show(volumes)
	k.opts.Metrics.setHeld(k.held(now))
	if wait := k.trust.pausedUntil - now; wait > 0 {
		return nil, wait
	}
	// New volumes must be noticed well before their first look is due.
	wait := k.opts.Settings.FirstLook / 6
	var first *record
	for _, r := range k.records {
		if first == nil || r.due < first.due {
			first = r
		}
	}
	if first == nil || first.due > now {
		if first != nil {
			wait = min(wait, first.due-now)
		}
		return nil, wait
	}
	return first, 0
}

// take brings the records up to date. Volumes whose name no PersistentVolume can
// have were not made by a provisioner; nothing can be found out about them.
func (k *Keeper) take(now time.Duration, volumes []Volume) {
	there := map[string]bool{}
	for _, v := range volumes {
		r := k.records[v.UUID]
		if r == nil && len(validation.IsDNS1123Subdomain(v.Name)) > 0 {
			continue
		}
		there[v.UUID] = true
		if r == nil || r.volume.IsOrphan() && !v.IsOrphan() {
			// New to this process, or CreateVolume was called for it again.
			r = &record{due: now + k.firstWait(v)}
			k.records[v.UUID] = r
		}
		r.volume = v
	}
	for uuid := range k.records {
		if !there[uuid] {
			delete(k.records, uuid)
		}
	}
}

func (k *Keeper) firstWait(v Volume) time.Duration {
	s := k.opts.Settings
	switch {
	case v.IsOrphan():
		return k.part(s.Recheck, 0, 1)
	case v.Kind() == Retained:
		return k.part(s.Interval, 0, 1)
	default:
		return k.part(s.FirstLook, 1, 1.25)
	}
}

// part is a random share of d.
func (k *Keeper) part(d time.Duration, from, to float64) time.Duration {
	return time.Duration(float64(d) * (from + (to-from)*k.random()))
}

// around is d, a quarter more or less, so that looks do not bunch.
func (k *Keeper) around(d time.Duration) time.Duration { return k.part(d, 0.75, 1.25) }
