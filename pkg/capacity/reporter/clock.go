package reporter

import "time"

// Clock is the time that a reporter lives in. Its methods are called from any
// goroutine. Requests to the API server are bounded in real time, whatever the clock says.
type Clock interface {
	// Now is the time since some moment that stays the same. It never goes back.
	Now() time.Duration
	// After returns a channel that gets one value when d has passed.
	After(d time.Duration) <-chan time.Time
}

// steadyClock is the machine's monotonic clock, which nobody sets.
type steadyClock struct{ start time.Time }

func (c steadyClock) Now() time.Duration { return time.Since(c.start) }

func (steadyClock) After(d time.Duration) <-chan time.Time { return time.After(d) }
