package main

import (
	"context"
	"sync/atomic"
	"time"
)

// stall is the longest time for which this process got no processor. What was due
// in that time comes at once afterwards, so on a machine that is busy with other
// things the writes per second say more of the machine than of the reporters.
type stall struct{ longest atomic.Int64 }

const stallTick = 10 * time.Millisecond

// watch runs until ctx ends.
func (s *stall) watch(ctx context.Context) {
	tick := time.NewTicker(stallTick)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		if late := now.Sub(last) - stallTick; late > time.Duration(s.longest.Load()) {
			s.longest.Store(int64(late))
		}
		last = now
	}
}

// take returns the longest stall since it was taken last.
func (s *stall) take() time.Duration { return time.Duration(s.longest.Swap(0)).Round(time.Millisecond) }
