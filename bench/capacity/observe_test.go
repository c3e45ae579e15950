package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-local/csi-local/test/testbed"
)

func TestMeasure(t *testing.T) {
	from := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	request := func(userAgent, verb string, at time.Duration, code int) testbed.Request {
		return testbed.Request{Agent: userAgent, Verb: verb, Received: from.Add(at), Code: code}
	}
	got := measure([]testbed.Request{
		request(agent, "patch", -time.Second, 200), // before
		request("kubectl", "patch", time.Second, 200),
		request(agent, "watch", time.Second, 200),
		request(agent, "patch", 2900*time.Millisecond, 200),
		request(agent, "patch", 2000*time.Millisecond, 409),
		request(agent, "patch", 3000*time.Millisecond, 429), // a second after the one before
		request(agent, "get", 3500*time.Millisecond, 429),
		request(agent, "patch", 5*time.Second, 500),
	}, from)
	want := traffic{requests: 6, writes: 4, refused: 1, throttled: 2, peak: 2, last: 2900 * time.Millisecond}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(traffic{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestPeakBound(t *testing.T) {
	for _, c := range []struct {
		nodes  int
		spread time.Duration
		want   float64
	}{
		{2000, 8 * time.Second, 330}, {2000, 40 * time.Second, 86},
		{2000, time.Second, 2000}, {2000, 0, 2000}, // nobody writes twice
	} {
		if got := peakBound(c.nodes, c.spread); got != c.want {
			t.Errorf("%d nodes within %v: %v, want %v", c.nodes, c.spread, got, c.want)
		}
	}
}

// Time that runs faster does not jump when the rate changes, and never goes back.
func TestClock(t *testing.T) {
	c := newClock()
	c.setRate(1e6)
	<-c.After(time.Hour) // 3.6 ms
	fast := c.Now()
	c.setRate(1)
	if slow := c.Now(); fast < time.Hour || slow < fast || slow > 100*fast {
		t.Errorf("after an hour: %v, and then %v", fast, slow)
	}
}
