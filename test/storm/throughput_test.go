package storm

import (
	"testing"
	"time"
)

func TestPaces(t *testing.T) {
	at := func(seconds ...float64) (times []time.Time) {
		for _, s := range seconds {
			times = append(times, time.Unix(1000, 0).Add(time.Duration(s*float64(time.Second))))
		}
		return times
	}
	for name, c := range map[string]struct {
		a, b         []time.Time
		wantA, wantB float64
	}{
		"alike":              {at(0, 1, 2), at(0, 1, 2), 1, 1},
		"b is twice as fast": {at(0, 1, 2, 3, 4), at(0, 0.5, 1, 1.5, 2), 1, 2},
		"b begins later":     {at(0, 1, 2, 3, 4), at(2, 2.5, 3, 3.5, 4), 1, 2},
		"one after another":  {at(0, 1), at(2, 3), 0, 0},
		"one pod each":       {at(0), at(0), 0, 0},
	} {
		if a, b := paces(c.a, c.b); a != c.wantA || b != c.wantB {
			t.Errorf("%s: %g and %g, want %g and %g", name, a, b, c.wantA, c.wantB)
		}
	}
}
