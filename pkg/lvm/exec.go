package lvm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// Exec runs each command in a process of its own. It is the fallback, the
// reference that tests hold [Session] to, and what discovery uses, which needs
// another configuration.
type Exec struct {
	env environment
	max int64
}

func newExec(env environment, maxBytes int64) *Exec { return &Exec{env: env, max: maxBytes} }

// Run implements [Runner].
func (e *Exec) Run(ctx context.Context, cmd Command) (Result, error) {
	// What the shell cannot take is refused here, too: the two must agree.
	if _, err := shellLine(cmd); err != nil {
		return Result{}, err
	}
	if ctx.Err() != nil {
		return Result{}, notStarted(ctx)
	}
	output, err := e.env.openOutput("exec.out")
	if err != nil {
		return Result{}, err
	}
	// Its content was read; nothing is lost if closing fails.
	defer func() { _ = output.Close() }()
	reportRead, reportWrite, err := os.Pipe()
	if err != nil {
		return Result{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer func() { _ = reportRead.Close() }()

	args := append([]string{cmd.Name}, cmd.Args...)
	selects := slices.Contains(cmd.Args, "-S")
	if selects {
		// Outside of the shell, lvm 2.03.16 crashes in a command that selects its
		// objects and logs into a report.
		args = append(args, "--config", "log/report_command_log=0")
	}
	proc := exec.CommandContext(context.WithoutCancel(ctx), e.env.lvmPath, args...)
	e.env.prepare(proc, reportWrite, output)
	if err := errors.Join(proc.Start(), reportWrite.Close()); err != nil {
		return Result{}, fmt.Errorf("%w: starting %s: %w", ErrUnavailable, e.env.lvmPath, err)
	}
	doc, readErr := io.ReadAll(io.LimitReader(reportRead, e.max+1))
	// The rest of a far too long answer must not block it.
	_, _ = io.Copy(io.Discard, reportRead)
	waitErr := proc.Wait()
	noise := strayOutput(output)
	var exit *exec.ExitError
	if waitErr != nil && (!errors.As(waitErr, &exit) || !exit.Exited()) {
		return Result{Started: true}, fmt.Errorf("%w: lvm ended during %s: %w%s", ErrUnavailable, cmd.Name, waitErr, quoted(noise))
	}
	if selects {
		code := proc.ProcessState.ExitCode()
		return Result{Started: true, ExitCode: code, Log: spoken(cmd, output, code)}, nil
	}
	return e.result(cmd, doc, readErr, proc.ProcessState.ExitCode(), noise)
}

// spoken makes log entries of what a command without a log wrote, a line each.
func spoken(cmd Command, output *os.File, code int) []LogEntry {
	text, err := io.ReadAll(io.NewSectionReader(output, 0, noiseBytes))
	if err != nil {
		text = nil // as if it had said nothing: then the state is asked
	}
	var log []LogEntry
	for line := range strings.Lines(string(text)) {
		entry := LogEntry{Type: "print", ObjectType: "cmd", ObjectName: cmd.Name, Message: strings.TrimSpace(line)}
		switch {
		case entry.Message == "":
			continue
		case strings.HasPrefix(entry.Message, "WARNING"):
			entry.Type = "warn"
		case code != 0:
			entry.Type = "error"
		}
		log = append(log, entry)
	}
	return log
}

func (e *Exec) result(cmd Command, doc []byte, readErr error, code int, noise string) (Result, error) {
	r := Result{Started: true, ExitCode: code}
	if int64(len(doc)) > e.max {
		readErr = errTooLong
	}
	var a answer
	if readErr == nil && (code == 0 || len(bytes.TrimSpace(doc)) > 0) {
		readErr = json.Unmarshal(doc, &a)
	}
	if readErr != nil {
		return r, fmt.Errorf("%w: %s: %w%s", ErrReport, cmd.Name, readErr, quoted(noise))
	}
	r.Report, r.Log = a.Report, a.Log
	if code != 0 && len(r.Failures()) == 0 && noise != "" {
		r.Log = append(r.Log, LogEntry{Type: "error", ObjectType: "cmd", ObjectName: cmd.Name, Message: noise})
	}
	return r, nil
}

// Reset implements [Runner]; each process reads the configuration anyway.
func (e *Exec) Reset() error { return nil }

// Close implements [Runner].
func (e *Exec) Close() error { return nil }

// exitCode reads a failed command's code; a command that failed without one
// has failed all the same (5: ECMD_FAILED).
func exitCode(code string) int {
	n, err := strconv.Atoi(code)
	if err != nil || n <= 1 {
		return 5
	}
	return n
}

func errOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}
