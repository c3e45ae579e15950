package vm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// envInit is on the kernel's command line, from where the kernel hands it to init.
const envInit = "VM_INIT"

// drainTime is how long output is awaited that processes hold open which outlive the
// command.
const drainTime = 2 * time.Second

// The very program that boots the kernel is also the kernel's init: then nothing has to
// be built or installed, and one process does what a script would start dozens for.
// Only init() is early enough to do so in any program and any test binary that imports
// this package. Both conditions hold nowhere but in the throwaway kernel.
//
//allow:init it has an effect in process 1 of the throwaway kernel only
func init() {
	if os.Getpid() == 1 && os.Getenv(envInit) != "" {
		guestInit(os.Getenv(envInit))
	}
}

// guestInit is process 1 of the throwaway kernel; it ends by switching the power off.
func guestInit(dir string) {
	// A garbage collection costs more here than the memory it would free.
	debug.SetGCPercent(-1)
	control, err := openSerial(serialControl)
	if err == nil {
		err = guestRun(dir, control)
		if err != nil {
			_, _ = io.WriteString(control, setupLine(err))
			drainSerial(control)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "init:", err)
	}
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// guestRun returns an error when the command could not be tried at all.
func guestRun(dir string, control *os.File) error {
	stdout, err := openSerial(serialStdout)
	if err != nil {
		return err
	}
	stderr, err := openSerial(serialStderr)
	if err != nil {
		return err
	}
	s, err := readSpec(dir)
	if err != nil {
		return err
	}
	if err := s.prepare(); err != nil {
		return err
	}
	out, err := newPump(stdout)
	if err != nil {
		return err
	}
	errs, err := newPump(stderr)
	if err != nil {
		return err
	}
	_, _ = io.WriteString(control, startLine())
	status := s.runCommand(out.in, errs.in)
	deadline := time.After(drainTime)
	out.drain(deadline)
	errs.drain(deadline)
	unix.Sync()
	_, _ = io.WriteString(control, exitLine(status))
	drainSerial(control)
	return nil
}

// prepare makes the machine what the command expects.
func (s *spec) prepare() error {
	modules, err := readGuestModules()
	if err != nil {
		return err
	}
	if err := modules.load("overlay"); err != nil {
		return err
	}
	if err := mountRoot(s.Shares); err != nil {
		return err
	}
	if err := seedRandom(s.Seed); err != nil {
		return err
	}
	for _, name := range s.Modules {
		if err := modules.load(name); err != nil {
			return err
		}
	}
	if err := unix.Sethostname([]byte("vm")); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if err := guestNetworkUp(s.Address); err != nil {
		return err
	}
	if s.Udev {
		if err := startUdev(); err != nil {
			return err
		}
	}
	return nil
}

func readGuestModules() (*moduleTree, error) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return nil, err
	}
	tree, err := readModuleTree(filepath.Join(kernelModules, unix.ByteSliceToString(uts.Release[:])))
	if err != nil {
		return nil, fmt.Errorf("modules of this kernel: %w", err)
	}
	return tree, nil
}

// runCommand returns the command's status as a shell would: 128 and the signal for one
// that was killed, 127 and 126 for one that could not be started.
func (s *spec) runCommand(stdout, stderr *os.File) int {
	args, env := stringsOf(s.Args), stringsOf(s.Env)
	defer stdout.Close()
	defer stderr.Close()
	err := os.Chdir(string(s.Dir))
	var path string
	if err == nil {
		path, err = findCommand(args[0], string(s.Dir), env)
	}
	if err != nil {
		return cannotRun(stderr, args[0], err)
	}
	pid, err := startProcess(path, args, env, stdout, stderr)
	if err != nil {
		return cannotRun(stderr, args[0], err)
	}
	return reapUntil(pid)
}

// cannotRun says so as a shell does, and returns the status that a shell returns.
func cannotRun(stderr io.Writer, command string, err error) int {
	fmt.Fprintf(stderr, "vm: cannot run %s: %v\n", command, err)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		return 127
	}
	return 126
}

// startProcess does not use os/exec, which waits for its own child: process 1 waits for
// all of them.
func startProcess(path string, args, env []string, stdout, stderr *os.File) (int, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	process, err := os.StartProcess(path, args, &os.ProcAttr{
		Env: env, Files: []*os.File{null, stdout, stderr}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, err
	}
	return process.Pid, nil
}

// reapUntil waits for every process, as process 1 must, until pid has ended.
func reapUntil(pid int) int {
	for {
		var status unix.WaitStatus
		ended, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return StatusFailed
		case ended != pid:
		case status.Signaled():
			return 128 + int(status.Signal())
		case status.Exited():
			return status.ExitStatus()
		}
	}
}
