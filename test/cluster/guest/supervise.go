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
	name    string
	log     *os.File
	command func() *exec.Cmd
	ended   chan struct{} // closed when it has ended for good
	stopped chan struct{} // closed when it is to end
	process chan *os.Process
}

// supervise starts a program and keeps it running until ctx ends or it is stopped.
func supervise(ctx context.Context, name string, log *os.File, path string, args ...string) (*service, error) {
	s := &service{name: name, log: log, ended: make(chan struct{}), stopped: make(chan struct{}), process: make(chan *os.Process, 1)}
	s.command = func() *exec.Cmd {
		//allow:exec it outlives whoever asks for it; stop ends it
		cmd := exec.Command(path, args...)
		cmd.Stdout, cmd.Stderr = log, log
		cmd.Env = serviceEnvironment()
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return cmd
	}
	cmd := s.command()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	s.process <- cmd.Process
	go s.keep(ctx, cmd)
	return s, nil
}

// serviceEnvironment leaves out what the host's user has set, such as proxies.
func serviceEnvironment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=/root", "LANG=C.UTF-8"}
}

func (s *service) keep(ctx context.Context, cmd *exec.Cmd) {
	defer close(s.ended)
	for {
		if cmd != nil {
			_ = cmd.Wait() // the state tells how it has ended
			<-s.process
		}
		select {
		case <-s.stopped:
			return
		case <-ctx.Done():
			return
		default:
		}
		if cmd != nil {
			_, _ = fmt.Fprintf(s.log, "node: %s ended (%v), starting it again\n", s.name, cmd.ProcessState)
		}
		pause := time.NewTimer(restartPause)
		select {
		case <-s.stopped:
			pause.Stop()
			return
		case <-pause.C:
		}
		cmd = s.command()
		if err := cmd.Start(); err != nil {
			_, _ = fmt.Fprintf(s.log, "node: starting %s: %v\n", s.name, err)
			cmd = nil
			continue
		}
		s.process <- cmd.Process
	}
}

// stop ends the program in its own time, and returns when it has ended.
func (s *service) stop() {
	close(s.stopped)
	select {
	case process := <-s.process:
		_ = process.Signal(syscall.SIGTERM)
		s.process <- process
	default: // between two starts
	}
	<-s.ended
}
