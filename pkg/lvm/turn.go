package lvm

import (
	"context"
	"time"
)

// turn is the right to run commands; its holder is the only one.
type turn struct {
	c      *Client
	waited time.Duration
}

// take waits for the turn. The error matches ErrTimeout and ctx's, or
// ErrUnavailable when the client is closed; then nothing was started.
func (c *Client) take(ctx context.Context) (turn, error) {
	started := time.Now()
	if ctx.Err() != nil {
		return turn{}, notStarted(ctx)
	}
	select {
	case <-c.closing:
		return turn{}, errClosed
	default:
	}
	select {
	case c.turns <- struct{}{}:
		return turn{c: c, waited: time.Since(started)}, nil
	case <-ctx.Done():
		return turn{}, notStarted(ctx)
	case <-c.closing:
		return turn{}, errClosed
	}
}

func (t turn) release() { <-t.c.turns }

// observe runs a command and reports what it cost. The caller holds the turn.
func (c *Client) observe(ctx context.Context, r Runner, cmd Command, waited time.Duration) (Result, error) {
	started := time.Now()
	result, err := r.Run(ctx, cmd)
	stats := CommandStats{
		Command: cmd.Name, Wait: waited, Run: time.Since(started), ExitCode: result.ExitCode, Process: result.Started,
	}
	if err != nil {
		stats.ExitCode = -1
	}
	c.opts.Observe(stats)
	return result, err
}
