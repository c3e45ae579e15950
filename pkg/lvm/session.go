package lvm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"k8s.io/klog/v2"
)

// Session runs commands in one long-lived lvm shell. The shell reads a command
// a line and writes one JSON document for each to a pipe of its own
// (LVM_REPORT_FD); the document's last log entry is the command's status, so it
// is the end mark, too.
type Session struct {
	env   environment
	max   int64 // bytes in one answer
	limit int   // commands before the shell is replaced
	shell *shell
}

// shell is one running lvm process.
type shell struct {
	stdin   io.WriteCloser
	report  *os.File
	answers *json.Decoder
	budget  *budgetReader
	// output is where stdout and stderr go. It is a file and not a pipe: if
	// this process dies, writing to a pipe would kill lvm in the middle of a
	// command.
	output *os.File
	// exited is closed when the process has ended; exitErr is set before.
	exited  chan struct{}
	exitErr error
	served  int
}

// exitGrace is how long the report pipe is still read after lvm ended, in case
// a child that it left behind holds the other end open.
const exitGrace = time.Second

func newSession(env environment, maxBytes int64, limit int) *Session {
	return &Session{env: env, max: maxBytes, limit: limit}
}

// Run implements [Runner].
func (s *Session) Run(ctx context.Context, cmd Command) (Result, error) {
	line, err := shellLine(cmd)
	if err != nil {
		return Result{}, err
	}
	if s.shell != nil && s.shell.served >= s.limit {
		// The shell's memory grows slowly; a new one costs little.
		s.stop()
	}
	for attempt := 0; ; attempt++ {
		if ctx.Err() != nil {
			return Result{}, notStarted(ctx)
		}
		started, err := s.ensure(ctx)
		if err != nil {
			return Result{}, err
		}
		if _, err := io.WriteString(s.shell.stdin, line); err != nil {
			// lvm ended before it read the line, so nothing was done.
			s.stop()
			if attempt == 0 {
				continue
			}
			return Result{}, fmt.Errorf("%w: sending the command: %w", ErrUnavailable, err)
		}
		result, err := s.await(cmd)
		result.Started = started
		return result, err
	}
}

// ensure starts the shell unless it runs.
func (s *Session) ensure(ctx context.Context) (started bool, err error) {
	if s.shell != nil {
		select {
		case <-s.shell.exited:
			klog.FromContext(ctx).Info("The lvm shell ended by itself and is started anew", "err", s.shell.exitErr)
			s.stop()
		default:
			return false, nil
		}
	}
	s.shell, err = startShell(ctx, s.env, s.max)
	return err == nil, err
}

// await reads the answer to the command that was just sent.
func (s *Session) await(cmd Command) (Result, error) {
	sh := s.shell
	sh.served++
	sh.budget.left = s.max
	var a answer
	if err := sh.answers.Decode(&a); err != nil {
		// In step no more: let it finish what it does, without a kill, and begin anew.
		noise := s.stop()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrDeadlineExceeded) {
			return Result{}, fmt.Errorf("%w: lvm ended during %s: %w%s", ErrUnavailable, cmd.Name, errOr(sh.exitErr, err), quoted(noise))
		}
		return Result{}, fmt.Errorf("%w: %s: %w%s", ErrReport, cmd.Name, err, quoted(noise))
	}
	sh.discardOutput()
	return resultOf(cmd, a)
}

// resultOf finds the command's own status, which the shell logs last.
func resultOf(cmd Command, a answer) (Result, error) {
	if len(a.Log) == 0 {
		return Result{}, fmt.Errorf("%w: %s: no status in the answer", ErrReport, cmd.Name)
	}
	last := a.Log[len(a.Log)-1]
	if last.Type != "status" || last.ObjectType != "cmd" || last.ObjectName != cmd.Name {
		return Result{}, fmt.Errorf("%w: %s: the last log entry is %s of %s %q, not the command's status",
			ErrReport, cmd.Name, last.Type, last.ObjectType, last.ObjectName)
	}
	r := Result{Report: a.Report, Log: a.Log}
	if last.Message == "success" {
		return r, nil
	}
	r.ExitCode = exitCode(last.RetCode)
	return r, nil
}

// Reset implements [Runner].
func (s *Session) Reset() error {
	s.stop()
	return nil
}

// Close implements [Runner].
func (s *Session) Close() error {
	s.stop()
	return nil
}

// stop tells the shell that there is no more to do and waits until it has
// ended, however long it takes. It returns what lvm said outside of its reports.
func (s *Session) stop() (noise string) {
	sh := s.shell
	if sh == nil {
		return ""
	}
	s.shell = nil
	// An error here means that it has ended already.
	_ = sh.stdin.Close()
	// Whatever it still has to say must not block it.
	_, _ = io.Copy(io.Discard, sh.report)
	<-sh.exited
	noise = strayOutput(sh.output)
	_ = sh.report.Close()
	_ = sh.output.Close()
	return noise
}

func startShell(ctx context.Context, env environment, maxBytes int64) (*shell, error) {
	output, err := env.openOutput("shell.out")
	if err != nil {
		return nil, err
	}
	reportRead, reportWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrUnavailable, err), output.Close())
	}
	// The end of ctx must not kill a command half-way.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), env.lvmPath)
	env.prepare(cmd, reportWrite, output)
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	err = errors.Join(err, reportWrite.Close())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: starting %s: %w", ErrUnavailable, env.lvmPath, err),
			reportRead.Close(), output.Close())
	}
	budget := &budgetReader{r: reportRead, left: maxBytes}
	sh := &shell{
		stdin: stdin, report: reportRead, budget: budget, answers: json.NewDecoder(budget),
		output: output, exited: make(chan struct{}),
	}
	go func() {
		sh.exitErr = cmd.Wait()
		close(sh.exited)
		// An error means that the pipe was closed already, so nobody reads it.
		_ = reportRead.SetReadDeadline(time.Now().Add(exitGrace))
	}()
	return sh, nil
}

// discardOutput keeps the file of stray output from growing.
func (sh *shell) discardOutput() {
	if info, err := sh.output.Stat(); err == nil && info.Size() > 0 {
		// A failure costs some bytes on a temporary file system, no more.
		_ = sh.output.Truncate(0)
	}
}

// budgetReader fails when more than left bytes are read.
type budgetReader struct {
	r    io.Reader
	left int64
}

func (b *budgetReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	return n, err
}
