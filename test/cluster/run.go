package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/csi-local/csi-local/test/cluster/guest"
)

// CommandError says how a command on a node or a kubectl has failed.
type CommandError struct {
	// Where is the node's name, or empty.
	Where string
	Args  []string
	// Status is the exit status; 128 and the signal's number if one killed it.
	Status         int
	Stdout, Stderr string
}

func (e *CommandError) Error() string {
	where := ""
	if e.Where != "" {
		where = e.Where + ": "
	}
	return fmt.Sprintf("%s%s: exit status %d\n%s%s", where, strings.Join(e.Args, " "), e.Status, e.Stdout, e.Stderr)
}

// Run runs a command in the node's kernel, as root and outside of all containers, and
// returns what it printed on stdout. It needs no network. A command that fails is a
// *CommandError. If the power is cut meanwhile, or ctx ends, that is the error.
func (n *Node) Run(ctx context.Context, args ...string) (string, error) {
	return n.RunWithInput(ctx, nil, args...)
}

// RunWithInput is Run with the command's standard input.
func (n *Node) RunWithInput(ctx context.Context, input []byte, args ...string) (string, error) {
	n.mu.Lock()
	on := n.on
	n.mu.Unlock()
	if on == nil {
		return "", fmt.Errorf("%w: %s is off", ErrPower, n.Name())
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-on.ended:
			cancel(fmt.Errorf("%s: %w", n.Name(), on.err))
		case <-ctx.Done():
		}
	}()
	result, err := guest.Call(ctx, n.shared(), rand.Text(), input, args...)
	if err == nil && result.Status != 0 {
		err = &CommandError{Where: n.Name(), Args: args, Status: result.Status, Stdout: string(result.Stdout), Stderr: string(result.Stderr)}
	}
	return string(result.Stdout), err
}

// MustRun is Run in a test that ends when it fails.
func (n *Node) MustRun(t testing.TB, args ...string) string {
	t.Helper()
	out, err := n.Run(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// stdoutOf runs a command of this machine.
func stdoutOf(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = &CommandError{Args: cmd.Args, Status: exit.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
	}
	return stdout.String(), err
}
