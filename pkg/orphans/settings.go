package orphans

import (
	"errors"
	"fmt"
	"time"
)

// Policy says what happens to leaked volumes; retained ones are always kept.
type Policy string

// The policies.
const (
	// PolicyDelete deletes leaked volumes after the grace period.
	PolicyDelete Policy = "delete"
	// PolicyKeep keeps them until an operator decides.
	PolicyKeep Policy = "keep"
)

// Settings are the figures of a [Keeper]. [DefaultSettings] is sane for clusters
// of thousands of nodes.
type Settings struct {
	Policy Policy
	// FirstLook is how long after it was noticed a volume without a known
	// PersistentVolume is looked for first. A provisioner with much to do, whose
	// requests to the API server are limited, may need as long to make it.
	FirstLook time.Duration
	// Interval is how often the PersistentVolume of any other volume is looked for;
	// the looks are spread over it.
	Interval time.Duration
	// Recheck is how often that of an orphan is looked for, and of a volume in doubt.
	Recheck time.Duration
	// Grace is how long the PersistentVolume of a leaked volume must have been
	// missing, without a gap, before the volume is deleted.
	Grace time.Duration
	// Hold is how long nothing is decided after most PersistentVolumes were lost at
	// once or the Node object was made anew.
	Hold time.Duration
	// Pause is the least time between two looks.
	Pause time.Duration
	// RequestTimeout bounds one request to the API server.
	RequestTimeout time.Duration
	// BackoffBase is the time without looks after a failed one; it doubles up to BackoffMax.
	BackoffBase, BackoffMax time.Duration
}

// DefaultSettings are what the flags default to.
func DefaultSettings() Settings {
	return Settings{
		Policy: PolicyDelete, FirstLook: time.Minute, Interval: time.Hour, Recheck: time.Minute,
		Grace: time.Hour, Hold: time.Hour, Pause: 250 * time.Millisecond,
		RequestTimeout: 10 * time.Second, BackoffBase: time.Second, BackoffMax: time.Minute,
	}
}

// gap is the longest time between two looks that both found a PersistentVolume
// missing that still counts as missing all the time: longer than that, and whoever
// was to make it may not have been able to either.
func (s Settings) gap() time.Duration { return 5*s.Recheck + s.RequestTimeout }

// Validate reports everything that is wrong, at once.
func (s Settings) Validate() error {
	var problems []error
	for _, d := range []struct {
		name        string
		value, from time.Duration
	}{
		{"FirstLook", s.FirstLook, time.Second},
		{"Interval", s.Interval, time.Second},
		{"Recheck", s.Recheck, time.Second},
		{"Grace", s.Grace, time.Second},
		{"Hold", s.Hold, 0},
		{"Pause", s.Pause, time.Millisecond},
		{"RequestTimeout", s.RequestTimeout, time.Second},
		{"BackoffBase", s.BackoffBase, time.Millisecond},
		{"BackoffMax", s.BackoffMax, s.BackoffBase},
	} {
		if d.value < d.from {
			problems = append(problems, fmt.Errorf("%s: %v must be at least %v", d.name, d.value, d.from))
		}
	}
	if s.Policy != PolicyDelete && s.Policy != PolicyKeep {
		problems = append(problems, fmt.Errorf("Policy: %q must be %s or %s", s.Policy, PolicyDelete, PolicyKeep))
	}
	return errors.Join(problems...)
}
