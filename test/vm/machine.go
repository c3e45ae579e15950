package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// Machine is a command that runs in a place of its own. Its methods may be called from
// any goroutine.
type Machine struct {
	opts    Options
	backend Backend
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed when status and err are final
	status  int
	err     error
}

// attempt is one run of the command by either backend. It ends early when ctx does, and
// leaves nothing behind in any case. The status is meaningful when err is nil.
type attempt func(ctx context.Context, o Options) (status int, err error)

// Start checks the options, chooses the backend and starts the command. The machine ends
// with ctx. Every started machine must be waited for.
//
// Errors of its own are OptionErrors, joined, and *MissingError; what happens once the
// machine runs is for Wait to tell.
func Start(ctx context.Context, o Options) (*Machine, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	choice, err := choose(o, probeHost(ctx, o))
	if err != nil {
		return nil, err
	}
	run := runHost
	if choice.backend == UML {
		kernel, err := findKernel()
		if err != nil {
			return nil, err
		}
		run = bootWith(kernel)
	}
	if o.Udev && choice.backend == UML {
		if _, err := findUdev(); err != nil {
			return nil, err
		}
	}
	logf(o.Log, "backend %s: %s", choice.backend, choice.reason)
	return startWith(ctx, o, choice.backend, run), nil
}

func startWith(ctx context.Context, o Options, backend Backend, run attempt) *Machine {
	ctx, cancel := context.WithCancelCause(ctx)
	m := &Machine{opts: o, backend: backend, cancel: cancel, done: make(chan struct{})}
	m.opts.Stdout, m.opts.Stderr = separate(o.Stdout, o.Stderr)
	go func() {
		defer close(m.done)
		defer cancel(nil)
		if o.Timeout > 0 {
			limited, stop := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("%w: %v", ErrTimeLimit, o.Timeout))
			defer stop()
			ctx = limited
		}
		m.status, m.err = m.run(ctx, run)
	}()
	return m
}

// run starts a second time when the first one met a known fault of the throwaway kernel.
// That needs disks that are new again: with a kept File the second run would find what
// the first one left.
func (m *Machine) run(ctx context.Context, run attempt) (int, error) {
	status, err := run(ctx, m.opts)
	var glitch *GlitchError
	if !errors.As(err, &glitch) {
		return status, err
	}
	if slices.ContainsFunc(m.opts.Disks, func(d Disk) bool { return d.File != "" }) {
		return status, fmt.Errorf("not started again, because the disk files are no longer as they were: %w", err)
	}
	logf(m.opts.Log, "%v: starting once more, output begins anew", err)
	return run(ctx, m.opts)
}

// Backend returns where the command runs: UML or Host.
func (m *Machine) Backend() Backend { return m.backend }

// Wait returns the command's exit status once it has ended and everything is taken down;
// 128 and the signal's number when it was killed by one. The error is nil whenever the
// command has a status, even a bad one. Else it is ErrTimeLimit or ErrPowerCut (wrapped),
// *DiedError, *SetupError, *GlitchError, or the cause of the context's end. It may be
// called more than once.
func (m *Machine) Wait() (int, error) {
	<-m.done
	return m.status, m.err
}

// CutPower ends a throwaway kernel between two instructions and returns when it is gone.
// What the guest had flushed is in the disk files, and so is what it had sent to the disk
// without a flush; what was only in its memory is lost. It returns ErrNoPowerCut on the
// Host backend, and nil when the command had ended before.
func (m *Machine) CutPower() error {
	if m.backend != UML {
		return ErrNoPowerCut
	}
	m.cancel(ErrPowerCut)
	<-m.done
	return nil
}

// separate makes one writer safe for two streams, and nil a writer.
func separate(stdout, stderr io.Writer) (io.Writer, io.Writer) {
	if stdout == nil {
		stdout = io.Discard
	}
	if stderr == nil {
		stderr = io.Discard
	}
	if sameWriter(stdout, stderr) {
		both := &lockedWriter{to: stdout}
		return both, both
	}
	return stdout, stderr
}

// sameWriter survives writers that cannot be compared.
func sameWriter(a, b io.Writer) (same bool) {
	defer func() {
		if recover() != nil {
			same = false
		}
	}()
	return a == b
}

type lockedWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// logf writes the machine's own messages, told apart by their beginning.
func logf(to io.Writer, format string, args ...any) {
	fmt.Fprintln(to, "vm: "+strings.TrimRight(fmt.Sprintf(format, args...), "\n"))
}
