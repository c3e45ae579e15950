package guest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// restartPause is between the end of a program and its next start.
const restartPause = time.Second

// service is a program that is started again whenever it ends.
type service struct {
	end   context.CancelFunc
	ended chan struct{} // closed when it has ended for good
}

// supervise starts a program and keeps it running until ctx ends or it is stopped. Either
// way it may end in its own time.
func supervise(ctx context.Context, name string, log *os.File, path string, args ...string) (*service, error) {
	ctx, end := context.WithCancel(ctx)
	start := func() (*exec.Cmd, error) {
		cmd := exec.CommandContext(ctx, path, args...)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.Stdout, cmd.Stderr = log, log
		cmd.Env = serviceEnvironment()
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return cmd, cmd.Start()
	}
	cmd, err := start()
	if err != nil {
		end()
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	s := &service{end: end, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		for {
			if err == nil {
				_ = cmd.Wait() // the state tells how it has ended
			}
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				_, _ = fmt.Fprintf(log, "node: starting %s: %v\n", name, err)
			} else {
				_, _ = fmt.Fprintf(log, "node: %s ended (%v), starting it again\n", name, cmd.ProcessState)
			}
			pause := time.NewTimer(restartPause)
			select {
			case <-ctx.Done():
				pause.Stop()
				return
			case <-pause.C:
			}
			cmd, err = start()
		}
	}()
	return s, nil
}

// serviceEnvironment leaves out what the host's user has set, such as proxies.
func serviceEnvironment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=/root", "LANG=C.UTF-8"}
}

// stop ends the program in its own time, and returns when it has ended.
func (s *service) stop() {
	s.end()
	<-s.ended
}
