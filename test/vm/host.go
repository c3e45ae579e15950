package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stopTime is how long the command has to end by itself after SIGTERM, and how long its
// output is awaited that processes hold open which outlive it.
const stopTime = 3 * time.Second

// runHost is the attempt on the host's own kernel.
func runHost(ctx context.Context, o Options) (status int, err error) {
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "vm-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	disks, err := openDisks(o.Disks, dir)
	if err != nil {
		return 0, err
	}
	defer closeAll(disks)
	left := &remains{log: o.Log, seen: map[string]error{}}
	defer func() {
		// The command's status counts for nothing when the host is not as it was.
		err = errors.Join(err, left.takeDown(ctx))
	}()
	var paths []string
	for i, disk := range disks {
		device, err := attachLoop(disk)
		if err != nil {
			return 0, fmt.Errorf("disk %d: %w", i+1, err)
		}
		left.loops, paths = append(left.loops, device), append(paths, device.path)
	}
	return runOnHost(ctx, o, commandEnv(os.Environ(), o.Env, Host, paths, hostUdev()), left)
}

// runOnHost runs the command in a mount namespace of its own, so that whatever it leaves
// mounted goes with it. It notes the namespace in left.
func runOnHost(ctx context.Context, o Options, env []string, left *remains) (int, error) {
	path, err := findCommand(o.Command[0], o.Dir, env)
	if err != nil {
		return cannotRun(o.Stderr, o.Command[0], err), nil
	}
	cmd := exec.CommandContext(ctx, path, o.Command[1:]...)
	cmd.Args[0] = o.Command[0]
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = env, o.Dir, o.Stdout, o.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = stopTime
	ended := make(chan error, 1)
	go func() {
		// The namespace belongs to this thread, which is never unlocked and so ends with
		// the goroutine, unless it is the program's first.
		runtime.LockOSThread()
		own, leave, err := ownMounts(o.Shares)
		if err == nil {
			left.space = own
			err = errors.Join(cmd.Run(), leave())
		}
		ended <- err
	}()
	err = <-ended
	return hostStatus(ctx, cmd.ProcessState, err)
}

func hostStatus(ctx context.Context, state *os.ProcessState, err error) (int, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if state == nil {
		return 0, fmt.Errorf("run the command: %w", err)
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return state.ExitCode(), nil
}

// ownMounts separates this thread's mounts from the host's and puts the shares in place.
// space is the name of the new mount namespace. leave lets go of it: while a thread is in
// it, whatever is mounted there stays mounted.
func ownMounts(shares []Share) (space string, leave func() error, err error) {
	const current = "/proc/thread-self/ns/mnt"
	hosts, err := os.Open(current)
	if err != nil {
		return "", nil, err
	}
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		hosts.Close()
		return "", nil, fmt.Errorf("separate the mounts: %w", err)
	}
	leave = func() error {
		defer hosts.Close()
		return unix.Setns(int(hosts.Fd()), unix.CLONE_NEWNS)
	}
	err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	for _, share := range shares {
		if err == nil && share.Host != share.Guest {
			err = unix.Mount(share.Host, share.Guest, "", unix.MS_BIND, "")
		}
	}
	if err == nil {
		// As on a booted system, mounts propagate between the command's own namespaces.
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
	}
	if err == nil {
		space, err = os.Readlink(current)
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("separate the mounts: %w", err), leave())
	}
	return space, leave, nil
}
