package reporter

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// Settings are the figures of the reporter's parts. [DefaultSettings] is sane
// for clusters of thousands of nodes.
type Settings struct {
	// Interval is the least time between two writes of one object, in the long
	// run. Two writes may follow each other at once; the second of them must
	// lower a figure.
	Interval time.Duration
	// Spread delays a write by a random time up to this, so that many nodes do
	// not write in the same moment; UrgentSpread is that of a lower figure.
	Spread, UrgentSpread time.Duration
	// RaiseDelay is how long a higher figure must have been true before it is
	// published, while nothing has failed.
	RaiseDelay time.Duration
	// StepPercent (1 to 100) of the figure is what one step of a recovery adds,
	// and StepInterval is the time between two steps.
	StepPercent  int64
	StepInterval time.Duration
	// Validity is how long LVM's last word on a pool counts; ErrorValidity is
	// how long at most since reading the pool began to fail, or since the
	// start while it was never read. Then the pool is published as 0.
	Validity, ErrorValidity time.Duration
	// HoldDown is how long nothing is raised after somebody else changed the annotation.
	HoldDown time.Duration
	// Resync is the longest time between two comparisons.
	Resync time.Duration
	// RequestTimeout bounds one request to the API server.
	RequestTimeout time.Duration
	// BackoffBase doubles with each failed request, up to BackoffMax.
	BackoffBase, BackoffMax time.Duration
	// Paused pins what is published: nothing is written.
	Paused bool
	// Where, if it is set, pins what is published while it does not match the Node's labels.
	Where labels.Selector
	// ForceTakeover writes even if a newer version wrote last.
	ForceTakeover bool
}

// DefaultSettings are what the flags default to.
func DefaultSettings() Settings {
	return Settings{
		Interval: 10 * time.Second, Spread: 5 * time.Second, UrgentSpread: time.Second,
		RaiseDelay: time.Minute, StepPercent: 25, StepInterval: time.Minute,
		Validity: 5 * time.Minute, ErrorValidity: time.Minute, HoldDown: 5 * time.Minute,
		Resync: 30 * time.Second, RequestTimeout: 10 * time.Second, BackoffBase: time.Second, BackoffMax: time.Minute,
	}
}

// Validate reports everything that is wrong, at once.
func (s Settings) Validate() error {
	var problems []error
	for _, d := range []struct {
		name        string
		value, from time.Duration
	}{
		{"Interval", s.Interval, time.Second},
		{"Spread", s.Spread, 0},
		{"UrgentSpread", s.UrgentSpread, 0},
		{"RaiseDelay", s.RaiseDelay, 0},
		{"StepInterval", s.StepInterval, time.Second},
		{"Validity", s.Validity, time.Second},
		{"ErrorValidity", s.ErrorValidity, time.Second},
		{"HoldDown", s.HoldDown, 0},
		{"Resync", s.Resync, time.Second},
		{"RequestTimeout", s.RequestTimeout, time.Second},
		{"BackoffBase", s.BackoffBase, time.Millisecond},
		{"BackoffMax", s.BackoffMax, s.BackoffBase},
	} {
		if d.value < d.from {
			problems = append(problems, fmt.Errorf("%s: %v must be at least %v", d.name, d.value, d.from))
		}
	}
	if s.StepPercent < 1 || s.StepPercent > 100 {
		problems = append(problems, fmt.Errorf("StepPercent: %d must be from 1 to 100", s.StepPercent))
	}
	if s.ErrorValidity > s.Validity {
		problems = append(problems, fmt.Errorf("ErrorValidity: %v must not be more than Validity, %v", s.ErrorValidity, s.Validity))
	}
	return errors.Join(problems...)
}
