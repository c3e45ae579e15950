package reporter

import "time"

// burst is how many writes may follow each other at once. The last of them is
// kept for a lower figure.
const burst = 2

// pacer says when one object may be written: a token bucket, a random delay
// that spreads the writes of many nodes, and the back-off after failures.
// While a write waits, everything that happens becomes part of it.
type pacer struct {
	settings Settings
	random   func() float64 // 0 ≤ x < 1

	tokens   float64
	refilled time.Duration
	// waiting is set from the moment a write is wanted; it is due at due.
	waiting, urgent bool
	due             time.Duration
	// notBefore holds back every request, failures grow it.
	notBefore time.Duration
	failures  int
}

func newPacer(s Settings, random func() float64) *pacer {
	return &pacer{settings: s, random: random, tokens: burst}
}

// wait returns how long a write that is wanted now has to wait still; 0 means go.
func (p *pacer) wait(now time.Duration, urgent bool) time.Duration {
	p.refill(now)
	if !p.waiting {
		spread := p.settings.Spread
		if urgent {
			spread = p.settings.UrgentSpread
		}
		p.waiting, p.urgent, p.due = true, urgent, now+p.upTo(spread)
	} else if urgent && !p.urgent {
		p.urgent, p.due = true, min(p.due, now+p.upTo(p.settings.UrgentSpread))
	}
	needed := float64(burst)
	if urgent {
		needed = 1
	}
	at := max(p.due, p.notBefore)
	if p.tokens < needed {
		at = max(at, now+time.Duration((needed-p.tokens)*float64(p.settings.Interval))+1)
	}
	return max(at-now, 0)
}

// idle tells that no write is wanted any more.
func (p *pacer) idle() { p.waiting, p.urgent = false, false }

// spend counts a write that is about to be tried.
func (p *pacer) spend(now time.Duration) {
	p.refill(now)
	p.tokens = max(p.tokens-1, 0)
}

// succeeded ends the back-off.
func (p *pacer) succeeded() { p.failures, p.notBefore = 0, 0 }

// failed holds back further requests for a random time that grows with each
// failure. A server that asked for some time has more to do than it can: those who
// were refused come back spread as wide as they can be.
func (p *pacer) failed(now, retryAfter time.Duration) {
	delay := p.settings.BackoffMax
	if p.failures < 30 {
		delay = min(delay, p.settings.BackoffBase<<p.failures)
	}
	p.failures++
	delay = delay/2 + p.upTo(delay/2)
	if retryAfter > 0 {
		delay = max(delay, retryAfter+p.upTo(p.settings.Spread))
	}
	p.notBefore = now + delay
}

// blocked is how long no request may be made at all.
func (p *pacer) blocked(now time.Duration) time.Duration { return max(p.notBefore-now, 0) }

func (p *pacer) refill(now time.Duration) {
	if now > p.refilled {
		p.tokens = min(p.tokens+float64(now-p.refilled)/float64(p.settings.Interval), burst)
		p.refilled = now
	}
}

func (p *pacer) upTo(most time.Duration) time.Duration {
	return time.Duration(p.random() * float64(most))
}
