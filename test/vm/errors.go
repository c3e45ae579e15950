package vm

import (
	"errors"
	"fmt"
	"strings"
)

// Exit statuses of a run that did not come from the command itself. They are those of
// timeout(1) and of a shell.
const (
	StatusFailed    = 125 // the machine failed, so the command has no status
	StatusTimeLimit = 124 // the time limit was reached
	StatusPowerCut  = 137 // the power was cut
)

var (
	// ErrTimeLimit is returned by Wait when Options.Timeout was reached.
	ErrTimeLimit = errors.New("time limit reached")
	// ErrPowerCut is returned by Wait after CutPower, unless the command had ended before.
	ErrPowerCut = errors.New("the power was cut")
	// ErrNoPowerCut is returned by CutPower of a machine that runs on the host's kernel.
	ErrNoPowerCut = errors.New("the power of the host's own kernel is not cut: use the uml backend")
	// ErrNoCable is returned by Disconnect and Reconnect of a machine that has no network
	// connection of its own.
	ErrNoCable = errors.New("the machine has no network connection of its own: give it an address, and use the uml backend")
)

// OptionError is a mistake in the caller's options or flags.
type OptionError struct {
	Problem string // what is wrong, and what would be right
}

func (e *OptionError) Error() string { return e.Problem }

// MissingError says that a backend cannot be had, and what would help.
type MissingError struct {
	Backend Backend
	Problem string
	Remedy  string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("the %s backend is not available: %s; %s", e.Backend, e.Problem, e.Remedy)
}

// DiedError says that the throwaway kernel ended before it told the command's status.
type DiedError struct {
	Reason  string   // what the console tells about it, in one line
	Console []string // the last lines of the kernel's console
}

func (e *DiedError) Error() string {
	if len(e.Console) == 0 {
		return "the throwaway kernel " + e.Reason + " (its console is empty)"
	}
	return "the throwaway kernel " + e.Reason + "; the last lines of its console:\n  " +
		strings.Join(e.Console, "\n  ")
}

// SetupError says what could not be set up inside the throwaway kernel before the command.
type SetupError struct {
	Problem string
	Console []string // the last lines of the kernel's console, which often tell why
}

func (e *SetupError) Error() string {
	text := "inside the throwaway kernel: " + e.Problem
	if len(e.Console) > 0 {
		text += "; the last lines of its console:\n  " + strings.Join(e.Console, "\n  ")
	}
	return text
}

// GlitchError says that the run failed by a known fault of the throwaway kernel, and not
// for a reason in the command: once in some hours, epoll_wait fails with ENOSYS, or a
// thread of md's that a RAID volume takes with it as it starts touches memory that is
// gone. A run on throwaway disks is started again once before this is returned.
type GlitchError struct {
	Line string // the line that gave it away
}

func (e *GlitchError) Error() string {
	return fmt.Sprintf("the throwaway kernel met a known fault of its own (%q); run it again", e.Line)
}

// ExitStatus maps what Wait returned to the exit status of a program that stands for
// the command.
func ExitStatus(status int, err error) int {
	switch {
	case err == nil:
		return status
	case errors.Is(err, ErrTimeLimit):
		return StatusTimeLimit
	case errors.Is(err, ErrPowerCut):
		return StatusPowerCut
	default:
		return StatusFailed
	}
}
