package lvmfake

import (
	"context"
	"errors"
	"fmt"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// Op is what a client or its devices do.
type Op string

const (
	OpRefresh        Op = "Refresh"
	OpCreate         Op = "Create"
	OpCreateThinPool Op = "CreateThinPool"
	OpRemove         Op = "Remove"
	OpExtend         Op = "Extend"
	OpActivate       Op = "Activate"
	OpDeactivate     Op = "Deactivate"
	OpRename         Op = "Rename"
	OpChangeTags     Op = "ChangeTags"
	OpOpenCount      Op = "OpenCount"
	OpReadEnds       Op = "ReadEnds"
	OpClearEnds      Op = "ClearEnds"
	OpZero           Op = "Zero"
)

// Phase is when a hook is called.
type Phase string

const (
	// Before: nothing was done. An error is returned instead of doing it.
	Before Phase = "before"
	// Halfway (OpZero only): the first half of the device is zeros.
	Halfway Phase = "halfway"
	// After: it was done, and nobody knows yet. An error is returned in spite of it.
	After Phase = "after"
)

// Call is one moment of one operation.
type Call struct {
	Op    Op
	Phase Phase
	// Ref names the volume; empty for OpRefresh. For operations on devices it is
	// the volume whose device that is.
	Ref lvm.Ref
	// Add and Remove are the tags of OpChangeTags, Add also those of OpCreate.
	Add, Remove []string
}

// Hook is called at each [Phase] of each operation. While it blocks, the operation
// and all that wait for their turn block: LVM hangs. Its error becomes the
// operation's; [ErrCrash] makes the client crash there.
type Hook func(ctx context.Context, call Call) error

// ErrCrash, returned by a [Hook], stops the client for good: the operation and all
// later ones fail with lvm.ErrUnavailable and have no effect, as if the process
// had been killed at that moment.
var ErrCrash = errors.New("crash")

// call runs the hook at one moment.
func (l *LVM) call(ctx context.Context, c Call) error {
	if err := l.alive(); err != nil {
		return err
	}
	l.mu.Lock()
	l.calls = append(l.calls, c)
	hook := l.hook
	l.mu.Unlock()
	if hook == nil {
		return nil
	}
	err := hook(ctx, c)
	if errors.Is(err, ErrCrash) {
		l.mu.Lock()
		l.dead = fmt.Errorf("%w: %w", lvm.ErrUnavailable, err)
		l.mu.Unlock()
		return l.alive()
	}
	if err != nil {
		return err
	}
	// Another operation may have crashed the client meanwhile.
	return l.alive()
}

func (l *LVM) alive() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// SetHook replaces the hook; nil takes it away.
func (l *LVM) SetHook(h Hook) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hook = h
}

// Calls returns all that was called so far, in order.
func (l *LVM) Calls() []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Call(nil), l.calls...)
}

// Crashed tells whether a hook crashed the client.
func (l *LVM) Crashed() bool { return errors.Is(l.alive(), ErrCrash) }
