package vm

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

	"golang.org/x/sys/unix"
)

const (
	// stopTime is how long the command has to end by itself after SIGTERM.
	stopTime = 10 * time.Second
	// takeDownTime bounds what is done after the command.
	takeDownTime = time.Minute
)

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
	var loops []*loopDevice
	defer func() {
		// The command's status counts for nothing when the host is not as it was.
		err = errors.Join(err, takeDown(ctx, o, loops))
	}()
	var paths []string
	for i, disk := range disks {
		device, err := attachLoop(disk)
		if err != nil {
			return 0, fmt.Errorf("disk %d: %w", i+1, err)
		}
		loops, paths = append(loops, device), append(paths, device.path)
	}
	return runOnHost(ctx, o, commandEnv(os.Environ(), o.Env, Host, paths, hostUdev()))
}

// runOnHost runs the command in a mount namespace of its own, so that whatever it leaves
// mounted goes with it.
func runOnHost(ctx context.Context, o Options, env []string) (int, error) {
	path, err := lookPath(o.Command[0])
	if err != nil {
		fmt.Fprintf(o.Stderr, "vm: cannot run %s: %v\n", o.Command[0], err)
		return 127, nil
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
		// the goroutine.
		runtime.LockOSThread()
		err := ownMounts(o.Shares)
		if err == nil {
			err = cmd.Run()
		}
		ended <- err
	}()
	err = <-ended
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	return hostStatus(ctx, cmd.ProcessState, err)
}

func hostStatus(ctx context.Context, state *os.ProcessState, err error) (int, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if state == nil {
		return 0, err
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return state.ExitCode(), nil
}

// ownMounts separates this thread's mounts from the host's and puts the shares in place.
func ownMounts(shares []Share) error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("separate the mounts: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("separate the mounts: %w", err)
	}
	for _, share := range shares {
		if share.Host == share.Guest {
			continue
		}
		if err := unix.Mount(share.Host, share.Guest, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("share %s: %w", share.Host, err)
		}
	}
	// As on a booted system, mounts propagate between the command's own namespaces.
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}

// takeDown removes what is stacked on the loop devices and detaches them. It has to work
// after ctx has ended.
func takeDown(ctx context.Context, o Options, loops []*loopDevice) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeDownTime)
	defer cancel()
	var errs []error
	for _, device := range loops {
		errs = append(errs, removeHolders(ctx, o, filepath.Base(device.path)))
	}
	for _, device := range loops {
		errs = append(errs, device.detach(ctx))
	}
	return errors.Join(errs...)
}

// removeHolders takes down the topmost devices first.
func removeHolders(ctx context.Context, o Options, name string) error {
	var errs []error
	for _, holder := range holders(name) {
		if err := removeHolders(ctx, o, holder); err != nil {
			errs = append(errs, err)
			continue
		}
		mapped := deviceMapperName(holder)
		if mapped == "" {
			errs = append(errs, fmt.Errorf("%s is stacked on %s and is not device mapper's: stop it", holder, name))
			continue
		}
		logf(o.Log, "the command left %s on %s: removing it", mapped, name)
		errs = append(errs, removeMapped(ctx, mapped))
	}
	return errors.Join(errs...)
}

func removeMapped(ctx context.Context, mapped string) error {
	dmsetup, err := lookPath("dmsetup")
	if err != nil {
		return err
	}
	// A suspended device cannot be removed while something waits for it.
	_ = exec.CommandContext(ctx, dmsetup, "resume", mapped).Run()
	args := []string{"remove", "--retry", mapped}
	if !hostUdev() {
		args = append(args, "--noudevsync")
	}
	out, err := exec.CommandContext(ctx, dmsetup, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("remove %s: %w: %s", mapped, err, out)
	}
	return nil
}
