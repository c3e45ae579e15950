package main

import (
	"sync"
	"time"
)

// clock is time that passes at a rate: of 60, a minute of it takes a second. Only
// the reporters live in it. The API server, the watches and the timeouts of
// requests have real time.
type clock struct {
	mu    sync.Mutex
	rate  float64
	base  time.Duration // what it showed at since
	since time.Time
}

func newClock() *clock { return &clock{rate: 1, since: time.Now()} }

// Now is the time since the clock was made.
func (c *clock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *clock) now() time.Duration {
	return c.base + time.Duration(float64(time.Since(c.since))*c.rate)
}

// After waits at the rate of now: after setRate, whoever waits must be woken.
func (c *clock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.After(time.Duration(float64(d) / c.rate))
}

func (c *clock) setRate(rate float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base, c.since, c.rate = c.now(), time.Now(), rate
}
