package controller

import (
	"errors"
	"fmt"
	"time"
)

// Settings are what an administrator chooses. [DefaultSettings] are good for
// most clusters.
type Settings struct {
	// LostNodeDelay is how long a Node must have been missing, as this process
	// saw it, before anything is changed. At least a second.
	LostNodeDelay time.Duration
	// MaxLostNodesPercent (1 to 100) of the nodes with volumes or pools may be
	// missing at the same time; above that nothing is changed. One node always may.
	MaxLostNodesPercent int
	// DryRun says in events and logs what would be changed, and changes nothing.
	DryRun bool
	// EventInterval is the least time between two events of the same reason
	// about the same object. At least a second.
	EventInterval time.Duration
	// ClaimGrace is how old a claim must be before it is called hopeless: one
	// that binds to an existing PersistentVolume does so within moments.
	ClaimGrace time.Duration
}

// DefaultSettings are used where the administrator says nothing.
func DefaultSettings() Settings {
	return Settings{
		LostNodeDelay:       15 * time.Minute,
		MaxLostNodesPercent: 30,
		EventInterval:       time.Hour,
		ClaimGrace:          10 * time.Second,
	}
}

// Validate reports everything that is wrong, at once.
func (s Settings) Validate() error {
	var problems []error
	if s.LostNodeDelay < time.Second {
		problems = append(problems, fmt.Errorf("LostNodeDelay: %v must be at least 1s", s.LostNodeDelay))
	}
	if s.MaxLostNodesPercent < 1 || s.MaxLostNodesPercent > 100 {
		problems = append(problems, fmt.Errorf("MaxLostNodesPercent: %d must be from 1 to 100", s.MaxLostNodesPercent))
	}
	if s.EventInterval < time.Second {
		problems = append(problems, fmt.Errorf("EventInterval: %v must be at least 1s", s.EventInterval))
	}
	if s.ClaimGrace < 0 {
		problems = append(problems, fmt.Errorf("ClaimGrace: %v must not be negative", s.ClaimGrace))
	}
	return errors.Join(problems...)
}
