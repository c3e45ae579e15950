package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Process is a program that runs until it is killed, with a log file. Its
// methods may be called from any goroutine.
type Process struct {
	name   string
	log    string
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended
}

// StartProcess starts a program beside the cluster's own, a scheduler perhaps.
// It is killed when this process ends, but not by Stop. What it prints is
// appended to NAME.log in the folder of the cluster's logs.
func (c *Cluster) StartProcess(name, path string, args ...string) (*Process, error) {
	return startProcess(name, path, c.logs, args...)
}

// startProcess appends to the log file, so that a program that is started
// again has one log.
func startProcess(name, path, logs string, args ...string) (*Process, error) {
	p := &Process{name: name, log: filepath.Join(logs, name+".log"), exited: make(chan struct{})}
	file, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	go func() {
		// Linux kills the program when the thread that started it ends, so that thread
		// must live as long as the program.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		// It outlives the call that starts it, and is ended by kill.
		p.cmd = exec.CommandContext(context.Background(), path, args...)
		p.cmd.Stdout, p.cmd.Stderr = file, file
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		err := errors.Join(p.cmd.Start(), file.Close())
		started <- err
		if err != nil {
			return
		}
		_ = p.cmd.Wait() // the state tells how it has ended
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	return p, nil
}

// LogPath is the file with what the program has printed.
func (p *Process) LogPath() string { return p.log }

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.exited }

// Kill ends the program as a power cut would, and returns when it has ended.
// It is no error if it has ended before.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing %s: %w", p.name, err)
	}
	<-p.exited
	return nil
}

// CPUTime is what the program has used, in user mode and in the kernel. Call it
// after Done.
func (p *Process) CPUTime() time.Duration {
	<-p.exited // or the state may be half written
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// Ended describes a program that has ended by itself. Call it after Done.
func (p *Process) Ended() error {
	return fmt.Errorf("%s ended by itself: %v\n%s", p.name, p.cmd.ProcessState, tail(p.log))
}

// tail returns the end of a log.
func tail(path string) []byte {
	const most = 4 << 10
	content, err := os.ReadFile(path)
	if err != nil {
		return []byte(err.Error())
	}
	return content[max(0, len(content)-most):]
}
