package driver

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// errBusy: another call for the same volume has not ended (CSI: ABORTED).
var errBusy = errors.New("an operation on this volume is still running")

// errStopping: the driver is shutting down and takes no new work (UNAVAILABLE).
var errStopping = errors.New("the driver is stopping")

// operations runs the effects of mutating calls, at most one per key, and lets
// a call answer before its effect has ended.
//
// Killing lvcreate or mkfs when a deadline passes would leave a state nobody
// can name. So the effect runs to its end with a context that the caller's
// deadline does not cancel; the caller gets DeadlineExceeded, the key stays
// taken (later calls: errBusy), and the call that comes after the end reads the
// state anew and answers from it.
type operations struct {
	mu       sync.Mutex
	busy     map[string]string // key -> what runs
	stopping bool
	running  sync.WaitGroup
}

func newOperations() *operations { return &operations{busy: map[string]string{}} }

// run calls effect under key and returns its error, or ctx's error as soon as
// ctx ends. waitCtx, the first argument of effect, ends with the caller: use it
// for what may be given up without a trace (waiting for a turn). runCtx does
// not: use it for what has begun.
func (o *operations) run(ctx context.Context, key, what string, effect func(waitCtx, runCtx context.Context) error) error {
	if err := o.acquire(key, what); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer o.release(key)
		done <- effect(ctx, context.WithoutCancel(ctx))
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		// Both may be ready: an effect that ended is the better answer.
		select {
		case err := <-done:
			return err
		default:
			return fmt.Errorf("%s of %s goes on in the background: %w", what, key, ctx.Err())
		}
	}
}

func (o *operations) acquire(key, what string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stopping {
		return errStopping
	}
	if other, taken := o.busy[key]; taken {
		return fmt.Errorf("%w: %s of %s", errBusy, other, key)
	}
	o.busy[key] = what
	o.running.Add(1)
	return nil
}

func (o *operations) release(key string) {
	o.mu.Lock()
	delete(o.busy, key)
	o.mu.Unlock()
	o.running.Done()
}

// stop refuses new operations and waits until the running ones have ended or ctx ends.
func (o *operations) stop(ctx context.Context) error {
	o.mu.Lock()
	o.stopping = true
	o.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		o.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("operations still running at shutdown: %w", ctx.Err())
	}
}
