package orphans

import (
	"context"
	"time"
)

// NewForTest makes a keeper whose time passes as the test says.
func NewForTest(opts Options, now func() time.Duration, random func() float64) *Keeper {
	return newKeeper(opts, now, random)
}

// Step is what Run does again and again.
func (k *Keeper) Step(ctx context.Context) time.Duration { return k.step(ctx) }
