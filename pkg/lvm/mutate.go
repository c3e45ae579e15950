package lvm

import (
	"context"
	"errors"
	"slices"
	"time"
)

// operation is a kind of change, by the name of its command.
type operation string

const (
	opCreate     operation = "lvcreate"
	opCreatePool operation = "lvcreate --type thin-pool"
	opRemove     operation = "lvremove"
	opExtend     operation = "lvextend"
	opActivate   operation = "lvchange -ay"
	opDeactivate operation = "lvchange -an"
	opRename     operation = "lvrename"
	opTags       operation = "lvchange --addtag --deltag"
)

// change is one mutating command.
type change struct {
	op  operation
	ref Ref
	// target is the new name that an opRename gives, and req what an opCreate is to make.
	target Ref
	req    CreateRequest
	// build makes the command; an empty one means that there is nothing to do.
	build func(before *State, vg VolumeGroup) (Command, error)
	// guarded: the command selects its object (-S), so that it does nothing and
	// succeeds if a condition does not hold. LVM checks it under its lock.
	guarded bool
	// unlessOrigin: a thick snapshot of the volume is such a condition.
	unlessOrigin bool
	// settle waits for what the command's success brings; nil if for nothing.
	settle func(vg VolumeGroup) error
	// patch is what the command's success does to the state.
	patch func(before *State) *State
	// done tells, from a fresh state after a command without success, that what
	// was wanted is so all the same. died: lvm gave no answer, so the command
	// may have worked.
	done func(before, after *State, died bool) bool
}

// attempts is how often a command is run when its failure was explained by
// something that has been put right since, such as a disk that was added to the
// volume group by somebody else and is in the filter now, or that may be over.
const attempts = 2

// apply runs a change: exactly one LVM command if it succeeds.
func (c *Client) apply(ctx context.Context, ch change) error {
	t, err := c.take(ctx)
	if err != nil {
		return ch.fail(err)
	}
	defer t.release()
	before, vg, err := c.usable(ctx, ch, t.waited)
	if err != nil {
		return ch.fail(err)
	}
	for left := attempts - 1; ; left-- {
		cmd, err := ch.build(before, vg)
		if err != nil {
			return ch.fail(err)
		}
		if cmd.Name == "" {
			return nil
		}
		result, err := c.observe(ctx, c.runner, cmd, t.waited)
		if errors.Is(err, ErrTimeout) || errors.Is(err, ErrInvalid) {
			return ch.fail(err)
		}
		if err == nil && result.ExitCode == 0 && (!ch.guarded || didSomething(result)) {
			return c.succeed(ch, before, vg)
		}
		after, again, failure := c.explain(ctx, ch, cmd, before, result, err)
		if failure == nil || !again || left == 0 {
			return failure
		}
		before = after
		vg, _ = after.VolumeGroup(ch.ref.VolumeGroup)
	}
}

func (c *Client) succeed(ch change, before *State, vg VolumeGroup) error {
	var err error
	if ch.settle != nil {
		err = ch.settle(vg)
	}
	if err == nil {
		after := *ch.patch(before)
		c.publish(&after)
	}
	c.noteChange()
	return err
}

// didSomething: LVM says a word about each object that it changed.
func didSomething(r Result) bool {
	return slices.ContainsFunc(r.Log, func(e LogEntry) bool { return e.Type == "print" })
}

// usable returns the state and the volume group that the change is about. What
// the last report did not show, group or volume, is looked for again before it
// is called missing. A physical volume that is missing does not forbid
// everything; LVM decides.
func (c *Client) usable(ctx context.Context, ch change, waited time.Duration) (*State, VolumeGroup, error) {
	state := c.state.Load()
	if state == nil || !shows(state, ch) {
		var err error
		if state, err = c.read(ctx, waited); err != nil {
			return nil, VolumeGroup{}, err
		}
	}
	name := ch.ref.VolumeGroup
	vg, ok := state.VolumeGroup(name)
	switch {
	case ok && !shows(state, ch):
		return nil, vg, &Error{Kind: ErrNotFound, Op: string(ch.op), Object: ch.ref.String()}
	case ok:
		return state, vg, nil
	case state.Problems[name] != nil:
		return nil, vg, state.Problems[name]
	}
	return nil, vg, groupError(ErrVolumeGroupMissing, name, "it is not among the configured volume groups")
}

// shows tells whether the state has what the change needs to be there.
func shows(s *State, ch change) bool {
	vg, ok := s.VolumeGroup(ch.ref.VolumeGroup)
	if !ok || ch.creates() {
		return ok
	}
	_, ok = vg.LogicalVolume(ch.ref.Name)
	return ok
}

func (ch change) creates() bool { return ch.op == opCreate || ch.op == opCreatePool }

func (ch change) is(ops ...operation) bool { return slices.Contains(ops, ch.op) }

// explain finds out what a command without success means, from a fresh state
// first. The error is nil if what was wanted is so all the same; again tells
// that the reason has gone.
func (c *Client) explain(ctx context.Context, ch change, cmd Command, before *State, result Result, cause error,
) (after *State, again bool, err error) {
	devicesBefore := c.layout.devices
	// The caller's time may be up; the truth is wanted all the same.
	after, readErr := c.read(context.WithoutCancel(ctx), 0)
	if readErr != nil {
		return nil, false, &Error{
			Kind: ErrUnavailable, Op: cmd.Name, Object: ch.ref.String(), ExitCode: result.ExitCode,
			Messages: result.Failures(), Cause: errOr(cause, readErr),
		}
	}
	if ch.done != nil && ch.done(before, after, cause != nil) {
		return after, false, nil
	}
	kind := classify(failure{ch: ch, cmd: cmd, before: before, after: after, result: result, cause: cause})
	// A thin pool that was activated by an LVM that leaves names in /dev to udevd,
	// and then deactivated by ours, can lose them when udevd comes to it, also while
	// its metadata is being checked. That is over when the check is made again.
	mayBeOver := errors.Is(kind, errNothingDone) || errors.Is(kind, ErrThinPoolRepair)
	again = shows(after, ch) && after.Problems[ch.ref.VolumeGroup] == nil && cause == nil &&
		(!slices.Equal(devicesBefore, c.layout.devices) || mayBeOver)
	if errors.Is(kind, errNothingDone) {
		kind = ErrFailed
	}
	return after, again, &Error{
		Kind: kind, Op: cmd.Name, Object: ch.ref.String(), ExitCode: result.ExitCode, Messages: result.Failures(), Cause: cause,
	}
}

// fail wraps an error that came before a command was run.
func (ch change) fail(err error) error {
	var known *Error
	if errors.As(err, &known) {
		return err
	}
	return &Error{Kind: kindOf(err), Op: string(ch.op), Object: ch.ref.String(), Cause: err}
}
