package reporter

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-local/csi-local/pkg/capacity"
)

var errGone = errors.New("volume group not found")

// look is one look at a pool: at is minutes since the start.
type look struct {
	at, age   time.Duration
	bytes     int64
	err       error
	published int64 // -1 for not published
	held      bool
	failed    bool // a volume found no room just before
	want      int64
}

func minutes(n float64) time.Duration { return time.Duration(n * float64(time.Minute)) }

func TestBooks_OnePool(t *testing.T) {
	for name, looks := range map[string][]look{
		"a new pool comes at once": {
			{at: 0, bytes: 100, published: -1, want: 100},
		},
		"lower at once": {
			{at: 0, bytes: 100, published: 100, want: 100},
			{at: 0, bytes: 40, published: 100, want: 40},
		},
		"higher after the delay, and the lowest of it": {
			{at: 0, bytes: 100, published: 100, want: 100},
			{at: minutes(0.1), bytes: 200, published: 100, want: 100},
			{at: minutes(0.5), bytes: 150, published: 100, want: 100},
			{at: minutes(1.0), bytes: 200, published: 100, want: 100},
			{at: minutes(1.1), bytes: 200, published: 100, want: 150},
			{at: minutes(1.2), bytes: 200, published: 150, want: 150},
			{at: minutes(2.2), bytes: 200, published: 150, want: 200},
		},
		"a dip starts the delay again": {
			{at: 0, bytes: 100, published: 100, want: 100},
			{at: minutes(0.1), bytes: 200, published: 100, want: 100},
			{at: minutes(0.9), bytes: 100, published: 100, want: 100},
			{at: minutes(1.1), bytes: 200, published: 100, want: 100},
			{at: minutes(2.1), bytes: 200, published: 100, want: 200},
		},
		"an error: the last value stays, then 0, then steps": {
			{at: 0, bytes: 100, published: 100, want: 100},
			{at: minutes(0.5), err: errGone, published: 100, want: 100},
			{at: minutes(1.4), err: errGone, published: 100, want: 100},
			{at: minutes(1.5), err: errGone, published: 100, want: 0},
			{at: minutes(2), bytes: 100, published: 0, want: 0},
			{at: minutes(3), bytes: 100, published: 0, want: 25},
			{at: minutes(3.5), bytes: 100, published: 25, want: 25},
			{at: minutes(4.5), bytes: 100, published: 25, want: 50},
			{at: minutes(4.6), bytes: 100, published: 50, want: 50},
			{at: minutes(5.6), bytes: 100, published: 50, want: 75},
			{at: minutes(5.7), bytes: 100, published: 75, want: 75},
			{at: minutes(6.7), bytes: 100, published: 75, want: 100},
			{at: minutes(6.8), bytes: 100, published: 100, want: 100},
			{at: minutes(7), bytes: 200, published: 100, want: 100},
			{at: minutes(8), bytes: 200, published: 100, want: 200}, // no recovery any more
		},
		"an error between two answers shortens nothing": {
			{at: 0, bytes: 100, published: 100, want: 100},
			{at: minutes(1), err: errGone, published: 100, want: 100},
			{at: minutes(1.5), bytes: 100, published: 100, want: 100},
			{at: minutes(2.4), err: errGone, published: 100, want: 100},
			{at: minutes(3.3), err: errGone, published: 100, want: 100},
			{at: minutes(3.4), err: errGone, published: 100, want: 0},
		},
		"LVM hangs: its last word grows old": {
			{at: 0, bytes: 100, published: 100, want: 100},
			{at: minutes(4.9), age: minutes(4.9), bytes: 100, published: 100, want: 100},
			{at: minutes(5), age: minutes(5), bytes: 100, published: 100, want: 0},
		},
		"an old word raises nothing": {
			{at: 0, age: minutes(2.6), bytes: 100, published: 50, want: 50},
			{at: minutes(1), age: minutes(3.6), bytes: 100, published: 50, want: 50},
		},
		"doubt lowers what is above the last word": {
			{at: 0, bytes: 100, published: 100, want: 100},
			{at: minutes(0.5), err: errGone, published: 300, want: 100},
		},
		"never read: what was published stays for a while": {
			{at: 0, err: errGone, published: 100, want: 100},
			{at: minutes(0.9), err: errGone, published: 100, want: 100},
			{at: minutes(1), err: errGone, published: 100, want: 0},
		},
		"never read and never published: nothing, then 0": {
			{at: 0, err: errGone, published: -1, want: -1},
			{at: minutes(1), err: errGone, published: -1, want: 0},
			{at: minutes(2), bytes: 100, published: 0, want: 0},
			{at: minutes(3), bytes: 100, published: 0, want: 25},
		},
		"found in the middle of a climb: goes on in steps": {
			{at: 0, bytes: 100, published: 25, want: 25},
			{at: minutes(1), bytes: 100, published: 25, want: 50},
		},
		"held down": {
			{at: 0, bytes: 100, published: 100, want: 100},
			{at: minutes(1), bytes: 200, published: 100, held: true, want: 100},
			{at: minutes(9), bytes: 200, published: 100, held: true, want: 100},
			{at: minutes(9.5), bytes: 200, published: 100, want: 100},
			{at: minutes(10), bytes: 200, published: 100, want: 200},
			{at: minutes(11), bytes: 50, published: 200, held: true, want: 50},
			{at: minutes(12), bytes: 50, published: -1, held: true, want: 0},
		},
		"no room during a recovery makes it wait, but not for ever": {
			{at: 0, bytes: 100, published: 0, want: 0},
			{at: minutes(0.9), bytes: 100, published: 0, failed: true, want: 0},
			{at: minutes(1.8), bytes: 100, published: 0, failed: true, want: 0},
			{at: minutes(2.7), bytes: 100, published: 0, failed: true, want: 0},
			{at: minutes(3.6), bytes: 100, published: 0, failed: true, want: 0},
			{at: minutes(4.5), bytes: 100, published: 0, failed: true, want: 0},
			{at: minutes(5.4), bytes: 100, published: 0, failed: true, want: 0},
			{at: minutes(6), bytes: 100, published: 0, failed: true, want: 25},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBooks(DefaultSettings())
			for i, l := range looks {
				if l.failed {
					b.postpone(l.at)
				}
				b.observe(l.at, []capacity.PoolReading{{Pool: "p", AllocatableBytes: l.bytes, Age: l.age, Err: l.err}})
				published := map[string]int64{}
				if l.published >= 0 {
					published["p"] = l.published
				}
				got, there := b.next(l.at, published, l.held).pools["p"]
				if !there {
					got = -1
				}
				if got != l.want {
					t.Errorf("look %d, at %v: %d, want %d", i, l.at, got, l.want)
				}
			}
		})
	}
}

// A pool that left the configuration leaves the annotation, at once; nobody waits for it.
func TestBooks_RemovedPool(t *testing.T) {
	b := newBooks(DefaultSettings())
	readings := []capacity.PoolReading{{Pool: "a", AllocatableBytes: 10}, {Pool: "b", AllocatableBytes: 20}}
	b.observe(0, readings)
	b.observe(1, readings[:1])
	got := b.next(1, map[string]int64{"a": 10, "b": 20}, false)
	if diff := cmp.Diff(map[string]int64{"a": 10}, got.pools); diff != "" || !got.lowers {
		t.Errorf("lowers %v (-want +got)\n%s", got.lowers, diff)
	}
}

func TestNewerThan(t *testing.T) {
	for _, tt := range []struct {
		theirs, ours string
		format       int
		want         bool
	}{
		{"v1.2.3", "v1.2.3", 1, false},
		{"v1.2.4", "v1.2.3", 1, true},
		{"v1.10.0", "v1.9.9", 1, true},
		{"v1.9.9", "v1.10.0", 1, false},
		{"v2.0.0", "v1.99.99", 1, true},
		{"v1.2.3-4-gabcdef-dirty", "v1.2.3", 1, false},
		{"v1.2.3", "v1.2.3-4-gabcdef", 1, false},
		{"v1.3.0-rc.1", "v1.2.3", 1, true},
		{"devel", "v1.2.3", 1, false},
		{"v1.2.3", "revision-abc", 1, false},
		{"v1.2", "v1.1.0", 1, false},
		{"v1.x.3", "v1.1.0", 1, false},
		{"v1.0.0", "v1.2.3", 2, true}, // a format that this program does not know
		{"devel", "devel", 2, true},
	} {
		if got := (capacity.Report{Format: tt.format, Writer: tt.theirs}).NewerThan(tt.ours); got != tt.want {
			t.Errorf("%s, format %d, newer than %s: %v", tt.theirs, tt.format, tt.ours, got)
		}
	}
}

func TestPacer(t *testing.T) {
	s := DefaultSettings()
	newOne := func(random float64) *pacer { return newPacer(s, func() float64 { return random }) }

	p := newOne(0.5)
	if got := p.wait(0, false); got != s.Spread/2 {
		t.Errorf("a raise waits %v, want half the spread", got)
	}
	if got := p.wait(time.Second, true); got != s.UrgentSpread/2 {
		t.Errorf("a lower figure meanwhile waits %v, want half its own spread", got)
	}

	p = newOne(0)
	for i, step := range []struct {
		at     time.Duration
		urgent bool
		want   time.Duration
	}{
		{0, false, 0},                              // a full bucket
		{0, true, 0},                               // the burst is for a lower figure
		{0, true, s.Interval + 1},                  // and then it is empty
		{s.Interval, false, s.Interval + 1},        // one token: not for a raise
		{s.Interval, true, 0},                      //
		{10 * s.Interval, false, 0},                // never more than a full bucket
		{10 * s.Interval, true, 0},                 //
		{10 * s.Interval, false, 2*s.Interval + 1}, //
	} {
		got := p.wait(step.at, step.urgent)
		if got != step.want {
			t.Errorf("step %d: wait %v, want %v", i, got, step.want)
		}
		if got == 0 {
			p.spend(step.at)
		}
		p.idle()
	}
}

func TestPacer_BackOff(t *testing.T) {
	s := DefaultSettings()
	p := newPacer(s, func() float64 { return 0 })
	now := time.Duration(0)
	for i, want := range []time.Duration{s.BackoffBase / 2, s.BackoffBase, 2 * s.BackoffBase, 4 * s.BackoffBase} {
		p.failed(now, 0)
		if got := p.blocked(now); got != want {
			t.Errorf("failure %d: blocked for %v, want %v", i, got, want)
		}
	}
	for range 100 {
		p.failed(now, 0)
	}
	if got := p.blocked(now); got != s.BackoffMax/2 {
		t.Errorf("after many failures: blocked for %v", got)
	}
	p.failed(now, 2*s.BackoffMax)
	if got := p.blocked(now); got != 2*s.BackoffMax {
		t.Errorf("blocked for %v, and the server asked for %v", got, 2*s.BackoffMax)
	}
	if got := p.wait(now, true); got != 2*s.BackoffMax {
		t.Errorf("a lower figure waits %v", got)
	}
	p.succeeded()
	if got := p.blocked(now); got != 0 {
		t.Errorf("after a success: blocked for %v", got)
	}
}

func TestNotices_TellTheBeginningOfAState(t *testing.T) {
	var told []string
	n := newNotices(func(n Notice) { told = append(told, n.Message) })
	notice := func(message string) Notice { return Notice{Reason: "R", Message: message} }
	n.set(0, "a", true, notice("a begins"))
	n.set(1, "a", true, notice("a lasts"))
	n.set(1, "b", true, notice("b begins"))
	n.set(2, "a", false, notice("a ends"))
	n.set(3, "a", true, notice("a again, too soon"))
	n.set(4, "a", false, notice("a ends"))
	n.set(quiet, "a", true, notice("a again"))
	n.set(quiet+1, "a", false, notice("a ends"))
	n.set(quiet+2, "a", true, notice("a once more, too soon"))
	n.set(2*quiet, "a", true, notice("a lasts"))
	if diff := cmp.Diff([]string{"a begins", "b begins", "a again", "a lasts"}, told); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// The end is told if the beginning was.
func TestNotices_TellTheEndOfAState(t *testing.T) {
	var told []string
	n := newNotices(func(n Notice) { told = append(told, n.Reason) })
	for i, holds := range []bool{false, true, true, false, false, true, false} {
		n.during(time.Duration(i), "a", holds, Notice{Reason: "Begins"}, Notice{Reason: "Ends"})
	}
	if diff := cmp.Diff([]string{"Begins", "Ends"}, told); diff != "" { // the second time was too soon
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestSettings(t *testing.T) {
	if err := DefaultSettings().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	if err := (Settings{}).Validate(); err == nil {
		t.Error("nothing set, and no problem")
	}
	for name, change := range map[string]func(*Settings){
		"Interval":      func(s *Settings) { s.Interval = 0 },
		"StepPercent":   func(s *Settings) { s.StepPercent = 101 },
		"ErrorValidity": func(s *Settings) { s.ErrorValidity = s.Validity + 1 },
		"BackoffMax":    func(s *Settings) { s.BackoffMax = s.BackoffBase - 1 },
	} {
		s := DefaultSettings()
		change(&s)
		if err := s.Validate(); err == nil {
			t.Errorf("%s is wrong, and no problem", name)
		}
	}
}
