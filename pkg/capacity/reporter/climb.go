package reporter

import "time"

// climb decides when a higher figure of one pool is published.
type climb struct {
	// recovering: something was wrong with the pool or with what was published
	// of it, so the figure comes back in steps.
	recovering bool
	// waiting tells that a higher figure is known since since; lowest is the
	// lowest of the figures since then. began is when the wait began at first.
	waiting      bool
	since, began time.Duration
	lowest       int64
	// last is the published figure at the last look.
	last int64
}

// postponements bounds how often failures for want of space can restart a wait,
// in units of the wait: where somebody tries again and again, the figure
// that would help must come out in the end.
const postponements = 5

// postpone restarts the wait of a recovery: volumes still do not fit.
func (c *climb) postpone(now time.Duration, s Settings) {
	if c.recovering && c.waiting {
		c.since = min(now, c.began+postponements*c.delay(s))
	}
}

func (c *climb) delay(s Settings) time.Duration {
	if c.recovering {
		return s.StepInterval
	}
	return s.RaiseDelay
}

// settle tells that the published figure is where it should be.
func (c *climb) settle(published int64) {
	c.waiting, c.recovering, c.last = false, false, published
}

// lowered tells that the figure goes down, or must not rise now.
func (c *climb) lowered(published int64) {
	c.waiting, c.last = false, published
}

// raise returns the figure to publish when target is above published, and when
// to look again. held means that nothing is raised at all for the moment.
func (c *climb) raise(now time.Duration, published, target int64, held bool, s Settings) (figure int64, again time.Duration) {
	if !c.waiting || c.last != published || held {
		c.waiting, c.since, c.began, c.lowest, c.last = true, now, now, target, published
	}
	c.lowest = min(c.lowest, target)
	due := c.since + c.delay(s)
	if held || now < due {
		return published, due
	}
	if !c.recovering {
		return c.lowest, due
	}
	return min(c.lowest, published+step(target, s.StepPercent)), due
}

// step is at least one byte, so that a climb ends.
func step(target, percent int64) int64 { return max(target/100*percent+target%100*percent/100, 1) }
