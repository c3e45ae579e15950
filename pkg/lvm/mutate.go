package lvm

import (
	"context"
	"errors"
	"time"
)

// change is one mutating command.
type change struct {
	op     string // for errors, when no command was built
	ref    Ref
	verify func(before *State, vg VolumeGroup) error
	// build makes the command; an empty one means that there is nothing to do.
	build func(before *State, vg VolumeGroup) (Command, error)
	// patch is what the command's success does to the state.
	patch func(before *State) *State
	// done tells from a fresh state, after the command failed, that what was
	// wanted is so all the same.
	done func(after *State) bool
}

// apply runs a change: exactly one LVM command if it succeeds.
func (c *Client) apply(ctx context.Context, ch change) error {
	t, err := c.take(ctx)
	if err != nil {
		return ch.fail(err)
	}
	defer t.release()
	before, vg, err := c.usable(ctx, ch.ref.VolumeGroup, t.waited)
	if err != nil {
		return ch.fail(err)
	}
	cmd, err := ch.build(before, vg)
	if err != nil {
		return ch.fail(err)
	}
	if cmd.Name == "" {
		return nil
	}
	result, err := c.observe(ctx, c.runner, cmd, t.waited)
	if err == nil && result.ExitCode == 0 {
		after := *ch.patch(before)
		c.publish(&after)
		c.noteChange()
		return nil
	}
	if errors.Is(err, ErrTimeout) || errors.Is(err, ErrInvalid) {
		return ch.fail(err)
	}
	return c.explain(ctx, ch, cmd, before, result, err)
}

// usable returns the state and the volume group, read anew if the group was
// not usable when last seen. A physical volume that is missing does not forbid
// everything; LVM decides.
func (c *Client) usable(ctx context.Context, name string, waited time.Duration) (*State, VolumeGroup, error) {
	state := c.state.Load()
	if state == nil || !has(state, name) {
		var err error
		if state, err = c.read(ctx, waited); err != nil {
			return nil, VolumeGroup{}, err
		}
	}
	if vg, ok := state.VolumeGroup(name); ok {
		return state, vg, nil
	}
	if problem := state.Problems[name]; problem != nil {
		return nil, VolumeGroup{}, problem
	}
	return nil, VolumeGroup{}, groupError(ErrVolumeGroupMissing, name, "it is not among the configured volume groups")
}

func has(s *State, group string) bool {
	_, ok := s.VolumeGroup(group)
	return ok
}

// explain finds out what a failed command means, from a fresh state first.
func (c *Client) explain(ctx context.Context, ch change, cmd Command, before *State, result Result, cause error) error {
	// The caller's time may be up; the truth is wanted all the same.
	after, err := c.read(context.WithoutCancel(ctx), 0)
	if err == nil && ch.done != nil && ch.done(after) {
		return nil
	}
	out := &Error{Op: cmd.Name, Object: ch.ref.String(), ExitCode: result.ExitCode, Messages: result.Failures(), Cause: cause}
	if err != nil {
		after = nil
		if out.Cause == nil {
			out.Cause = err
		}
	}
	out.Kind = classify(failure{cmd: cmd, ref: ch.ref, before: before, after: after, result: result, cause: cause})
	return out
}

// fail wraps an error that came before a command was run.
func (ch change) fail(err error) error {
	var known *Error
	if errors.As(err, &known) {
		return err
	}
	return &Error{Kind: kindOf(err), Op: ch.op, Object: ch.ref.String(), Cause: err}
}
