package driver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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
	busy     map[string]*operation // by key
	stopping chan struct{}         // closed by stop
	running  sync.WaitGroup
}

// operationKind names what an operation does to a volume, as errors show it.
type operationKind string

const (
	opCreation      operationKind = "creation"
	opDeletion      operationKind = "deletion"
	opMarking       operationKind = "marking"
	opStaging       operationKind = "staging"
	opUnstaging     operationKind = "unstaging"
	opPublication   operationKind = "publication"
	opUnpublication operationKind = "unpublication"
	opExpansion     operationKind = "expansion"
)

// isUse tells of an operation that a volume in use goes through: it exists before and
// after, with the parameters it was made with.
func (k operationKind) isUse() bool {
	switch k {
	case opStaging, opUnstaging, opPublication, opUnpublication, opExpansion:
		return true
	}
	return false
}

// busyError is errBusy, and says with what.
type busyError struct {
	running *operation
	key     string
}

func (e *busyError) Error() string { return fmt.Sprintf("%v: %v of %s", errBusy, e.running, e.key) }

func (e *busyError) Unwrap() error { return errBusy }

// operation is one running effect.
type operation struct {
	kind operationKind
	// progress is a text such as "37 % done", nil if there is none.
	progress atomic.Pointer[string]
}

func (o *operation) String() string {
	if progress := o.progress.Load(); progress != nil {
		return string(o.kind) + ", " + *progress
	}
	return string(o.kind)
}

// operationKey is the context key under which an effect finds its operation.
type operationKey struct{}

// reportProgress says how far the operation is that ctx belongs to; the text
// appears in the errors that others get meanwhile. Without an operation in ctx
// it does nothing.
func reportProgress(ctx context.Context, text string) {
	if op, ok := ctx.Value(operationKey{}).(*operation); ok {
		op.progress.Store(&text)
	}
}

func newOperations() *operations {
	return &operations{busy: map[string]*operation{}, stopping: make(chan struct{})}
}

// run calls effect under key and returns its error, or ctx's error as soon as
// ctx ends. waitCtx, the first argument of effect, ends with the caller: use it
// for what may be given up without a trace (waiting for a turn). runCtx does
// not: use it for what has begun.
func (o *operations) run(ctx context.Context, key string, kind operationKind, effect func(waitCtx, runCtx context.Context) error) error {
	op, err := o.acquire(key, kind)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		waitCtx := context.WithValue(ctx, operationKey{}, op)
		err := guard(waitCtx, func() error { return effect(waitCtx, context.WithoutCancel(waitCtx)) })
		o.release(key) // before the answer, or the caller's next call may find the key taken
		done <- err
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
			return fmt.Errorf("%v of %s goes on in the background: %w", op, key, ctx.Err())
		}
	}
}

// inUse tells whether an operation is running that a volume in use goes through.
func (o *operations) inUse(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	op, taken := o.busy[key]
	return taken && op.kind.isUse()
}

// untilStop returns a copy of ctx that also ends when the driver stops: for
// work that takes long and is resumed after a restart.
func (o *operations) untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-o.stopping:
			cancel(errStopping)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

func (o *operations) isStopping() bool {
	select {
	case <-o.stopping:
		return true
	default:
		return false
	}
}

func (o *operations) acquire(key string, kind operationKind) (*operation, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.isStopping() {
		return nil, errStopping
	}
	if other, taken := o.busy[key]; taken {
		return nil, &busyError{running: other, key: key}
	}
	op := &operation{kind: kind}
	o.busy[key] = op
	o.running.Add(1)
	return op, nil
}

func (o *operations) release(key string) {
	o.mu.Lock()
	delete(o.busy, key)
	o.mu.Unlock()
	o.running.Done()
}

// refuse makes every later operation fail with errStopping. It may be called again.
func (o *operations) refuse() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.isStopping() {
		close(o.stopping)
	}
}

// stop refuses new operations and waits until the running ones have ended or ctx ends.
func (o *operations) stop(ctx context.Context) error {
	o.refuse()
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
