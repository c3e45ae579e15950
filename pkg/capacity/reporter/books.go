package reporter

import (
	"maps"
	"slices"
	"time"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// books hold what is known of each configured pool.
type books struct {
	settings Settings
	pools    map[string]*book
}

// book is what is known of one pool.
type book struct {
	trust trust
	climb climb
	// seen tells that the published figure was looked at once.
	seen bool
	// verdict is the last one.
	verdict verdict
}

func newBooks(s Settings) *books { return &books{settings: s, pools: map[string]*book{}} }

// observe takes in the readings of all configured pools; pools without one are
// no longer configured and are forgotten.
func (b *books) observe(now time.Duration, readings []capacity.PoolReading) {
	present := map[string]bool{}
	for _, r := range readings {
		present[r.Pool] = true
		p := b.pools[r.Pool]
		if p == nil {
			p = &book{trust: trust{born: now}}
			b.pools[r.Pool] = p
		}
		p.trust.observe(now, r)
	}
	maps.DeleteFunc(b.pools, func(name string, _ *book) bool { return !present[name] })
}

// postpone restarts the waits of all recoveries.
func (b *books) postpone(now time.Duration) {
	for _, p := range b.pools {
		p.climb.postpone(now, b.settings)
	}
}

// recover makes all pools come back in steps.
func (b *books) recover() {
	for _, p := range b.pools {
		p.climb.recovering = true
	}
}

// plan is what should be published now.
type plan struct {
	pools map[string]int64
	// lowers tells that a figure goes down or away.
	lowers bool
	// again is when the plan may change though nothing happens; 0 for never.
	again time.Duration
}

// next makes the plan. published is what stands in the annotation now; while
// held, nothing is raised.
func (b *books) next(now time.Duration, published map[string]int64, held bool) plan {
	p := plan{pools: map[string]int64{}}
	for _, name := range slices.Sorted(maps.Keys(b.pools)) {
		was, there := published[name]
		figure, publish, again := b.pools[name].next(now, was, there, held, b.settings)
		if publish {
			p.pools[name] = figure
		}
		if again > now && (p.again == 0 || again < p.again) {
			p.again = again
		}
	}
	for name, was := range published {
		if figure, stays := p.pools[name]; !stays || figure < was {
			p.lowers = true
		}
	}
	return p
}

func (k *book) next(now time.Duration, was int64, there, held bool, s Settings) (figure int64, publish bool, again time.Duration) {
	verdict, expires := k.trust.judge(now, s)
	k.verdict = verdict
	again = expires
	target := k.trust.value
	switch verdict {
	case expired:
		k.climb.recovering = true
		k.climb.lowered(0)
		return 0, true, 0
	case inherited:
		k.climb.lowered(was)
		return was, there, again
	case doubtful:
		k.climb.lowered(min(was, target))
		return min(was, target), there, again
	case sound:
		again = k.trust.confirmed + s.Validity/2
	}
	first := !k.seen
	k.seen = true
	if !there && !k.climb.recovering && !held {
		k.climb.settle(target) // a pool that nobody counts on yet
		return target, true, again
	}
	if first && was < target {
		k.climb.recovering = true // whoever wrote this may have been in the middle of a climb
	}
	switch {
	case was == target:
		k.climb.settle(target)
		return target, true, again
	case was > target:
		k.climb.lowered(target)
		return target, true, again
	}
	figure, due := k.climb.raise(now, was, target, held, s)
	return figure, true, min(again, max(due, now+1))
}
