package sim

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func never() bool { return false }

func TestClock_WhatIsDueAtOnceHappensInTheOrderOfAsking(t *testing.T) {
	c, got := &clock{}, ""
	c.after(2*time.Second, func() { got += "c" })
	c.after(time.Second, func() {
		got += "a"
		c.after(0, func() { got += "b" })
	})
	for _, more := range "defghijklmn" {
		c.after(2*time.Second, func() { got += string(more) })
	}
	c.after(4*time.Second, func() { got += "late" })
	c.run(3*time.Second, never)
	if got != "abcdefghijklmn" || c.now != 2*time.Second {
		t.Errorf("%q at %v", got, c.now)
	}
}

func TestLimiter_BurstThenOneAtATime(t *testing.T) {
	c := &clock{}
	l := newLimiter(c, 10, 3)
	var waits []time.Duration
	for range 5 {
		waits = append(waits, l.reserve().Round(time.Millisecond))
	}
	want := []time.Duration{0, 0, 0, 100 * time.Millisecond, 200 * time.Millisecond}
	if diff := cmp.Diff(want, waits); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
	c.now = 10 * time.Second
	for i := range 3 {
		if !l.try() {
			t.Errorf("after a rest there is no token %d", i+1)
		}
	}
	if l.try() {
		t.Error("a rest gave more than the burst")
	}
}

func TestStream_DelaysNeverOvertake(t *testing.T) {
	c := &clock{}
	delays := []time.Duration{3 * time.Second, time.Second, 2 * time.Second}
	s := &stream{clock: c, delay: func() time.Duration {
		d := delays[0]
		delays = delays[1:]
		return d
	}}
	got := ""
	for _, change := range []string{"a", "b", "c"} {
		s.send(func() { got += change })
	}
	c.run(time.Minute, never)
	if got != "abc" {
		t.Errorf("delivered as %q", got)
	}
}

func TestWorkQueue_OneAtATimeAndOnce(t *testing.T) {
	var worked []string
	var done func()
	q := newWorkQueue(func(item string, end func()) {
		worked = append(worked, item)
		done = end
	})
	for _, item := range []string{"a", "b", "b", "a", "c"} {
		q.add(item)
	}
	for range 4 {
		done()
	}
	// "a" was added again while it was worked on.
	if diff := cmp.Diff([]string{"a", "b", "c", "a"}, worked); diff != "" {
		t.Errorf("worked on (-want +got):\n%s", diff)
	}
}

func TestLane_DropsWhatItCannotHold(t *testing.T) {
	c, writes := &clock{}, 0
	l := &lane{client: &client{clock: c, limiter: newLimiter(c, 1, 1), latency: func() time.Duration { return 0 }, writes: &writes}, limit: 2}
	for range 10 {
		l.event()
	}
	c.run(time.Hour, never)
	if writes != 3 {
		t.Errorf("%d writes, want one at once and two that could wait", writes)
	}
}

// The figures are those of kubernetes' own test of the score, in the units here:
// 100m of 1900m and 200 MiB of 4580 MiB leave 94 and 95 percent.
func TestLeastAllocated_FallsToNothing(t *testing.T) {
	scores := leastAllocated(DefaultPlatform())
	for pods, want := range map[int]int64{1: (94 + 95) / 2, 10: (47 + 56) / 2, 22: (0 + 3) / 2, 23: 0, 110: 0} {
		if scores[pods] != want {
			t.Errorf("%d pods: %d, want %d", pods, scores[pods], want)
		}
	}
}

func TestBackoff_DoublesUpToTenSeconds(t *testing.T) {
	for count, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 4: 8 * time.Second, 5: 10 * time.Second, 1000: 10 * time.Second} {
		if got := backoff(count); got != want {
			t.Errorf("backoff(%d) = %v, want %v", count, got, want)
		}
	}
}
