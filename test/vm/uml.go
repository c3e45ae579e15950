package vm

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Descriptors that the kernel process inherits, in the order of exec.Cmd.ExtraFiles. The
// disks are followed by the network, if there is one.
const (
	firstSerialFD = 3
	firstDiskFD   = firstSerialFD + serialLines
)

// bootWith returns the attempt that boots the given kernel.
func bootWith(kernel string) attempt {
	return func(ctx context.Context, o Options) (int, error) {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		folder, err := runFolder()
		if err != nil {
			return 0, err
		}
		defer folder.remove()
		dir := folder.path
		files, err := openFiles(o, dir)
		if err != nil {
			return 0, err
		}
		defer closeAll(files)
		if err := newSpec(o).write(dir); err != nil {
			return 0, err
		}
		argv := append([]string{kernel}, kernelArgs(dir, o)...)
		return boot(ctx, o, argv, files, dir)
	}
}

// runFolder makes the folder that the kernel finds its init and its orders in.
func runFolder() (*folder, error) {
	f, err := newFolder()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err == nil && !plainPath.MatchString(f.path) {
		err = &OptionError{Problem: fmt.Sprintf(
			"temporary folder %q: the kernel's command line takes letters, digits and ._+-/ only: set TMPDIR", f.path)}
	}
	if err == nil {
		err = os.Symlink(self, filepath.Join(f.path, "init"))
	}
	if err != nil {
		f.remove()
		return nil, err
	}
	return f, nil
}

var plainPath = regexp.MustCompile(`^[A-Za-z0-9/._+-]+$`)

// kernelArgs is the kernel's command line. Everything of the caller's own choice goes
// another way, so nothing here has to be quoted.
func kernelArgs(dir string, o Options) []string {
	args := []string{
		fmt.Sprintf("mem=%dM", o.MemoryMiB),
		"uml_dir=" + dir + "/", "umid=kernel",
		"rootfstype=hostfs", "rootflags=/", "ro",
		"init=" + dir + "/init", envInit + "=" + dir,
		"con=null", "con0=null,fd:1",
		"loglevel=5", "selinux=0", "cryptomgr.notests", "pty.legacy_count=0",
	}
	if !o.RAID6 {
		args = append(args, "initcall_blacklist=raid6_select_algo")
	}
	for i := range serialLines {
		args = append(args, fmt.Sprintf("ssl%d=null,fd:%d", i, firstSerialFD+i))
	}
	for i := range o.Disks {
		// The path of a descriptor works for a file without a name, and needs no quoting.
		args = append(args, fmt.Sprintf("ubd%c=/proc/self/fd/%d", 'b'+i, firstDiskFD+i))
	}
	if o.Address.IsValid() {
		// A tap is no socket, so packets come and go one by one.
		args = append(args, fmt.Sprintf("%s:transport=fd,fd=%d,depth=128,vec=0", guestInterface, firstDiskFD+len(o.Disks)))
	}
	return args
}

func newSpec(o Options) *spec {
	s := &spec{
		Args: bytesOf(o.Command), Dir: []byte(o.Dir), Udev: o.Udev,
		Modules: slices.Concat(BaseModules(), o.Modules), Seed: make([]byte, 64),
	}
	_, _ = rand.Read(s.Seed) // never fails
	for _, share := range o.Shares {
		s.Shares = append(s.Shares, specShare{Host: []byte(share.Host), Guest: []byte(share.Guest)})
	}
	disks := make([]string, len(o.Disks))
	for i := range disks {
		disks[i] = fmt.Sprintf("/dev/ubd%c", 'b'+i)
	}
	if o.Address.IsValid() {
		s.Address = o.Address.String()
	}
	s.Env = bytesOf(commandEnv(os.Environ(), o.Env, UML, disks, o.Udev))
	return s
}

// openFiles opens what the kernel has of the host: the disks, and the network if wanted.
func openFiles(o Options, dir string) ([]*os.File, error) {
	files, err := openDisks(o.Disks, dir)
	if err != nil || !o.Address.IsValid() {
		return files, err
	}
	tap, err := openTap(o.Address)
	if err != nil {
		closeAll(files)
		return nil, err
	}
	return append(files, tap), nil
}

// openDisks opens every disk for reading and writing. Disks without a file have no name
// either, so that they vanish however this process ends.
func openDisks(disks []Disk, dir string) ([]*os.File, error) {
	var files []*os.File
	for i, d := range disks {
		f, err := openDisk(d, filepath.Join(dir, fmt.Sprintf("disk%d", i+1)))
		if err != nil {
			closeAll(files)
			return nil, fmt.Errorf("disk %d: %w", i+1, err)
		}
		files = append(files, f)
	}
	return files, nil
}

func openDisk(d Disk, temporary string) (*os.File, error) {
	path := d.File
	if path == "" {
		path = temporary
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if d.File == "" {
		err = os.Remove(path)
	}
	if err == nil && d.SizeBytes > 0 {
		err = f.Truncate(d.SizeBytes)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// boot runs the kernel to its end and tells what became of the command.
func boot(ctx context.Context, o Options, argv []string, files []*os.File, dir string) (int, error) {
	alive, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	console := newConsole(o.Console, func() { kill(errRebooted) })
	watchdog := time.AfterFunc(bootLimit, func() { kill(errStuck) })
	defer watchdog.Stop()
	var lines report
	// On stdout, because tests print there what their programs had on stderr.
	watches := []*glitchWatch{serialStdout: {}, serialStderr: {}}
	sinks := []io.Writer{
		serialStdout:  io.MultiWriter(watches[serialStdout], o.Stdout),
		serialStderr:  io.MultiWriter(watches[serialStderr], o.Stderr),
		serialControl: nil,
	}
	var readers sync.WaitGroup
	var writers []*os.File
	for i := range serialLines {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(writers)
			return 0, err
		}
		writers = append(writers, w)
		readers.Go(func() {
			defer r.Close()
			if i == serialControl {
				lines.readAll(r, console, func() { watchdog.Stop() })
				return
			}
			_, _ = io.Copy(sinks[i], r)
			_, _ = io.Copy(io.Discard, r) // a full pipe would stop the kernel
		})
	}
	err := runKernel(alive, func(contained bool) *exec.Cmd {
		cmd := kernelCommand(argv, contained)
		cmd.Stdout, cmd.Stderr = console, console
		cmd.ExtraFiles = slices.Concat(writers, files)
		cmd.Env = kernelEnv(os.Environ(), dir, o.MemoryMiB)
		return cmd
	}, func() { closeAll(writers) })
	readers.Wait()
	return verdict(alive, o, &lines, console, glitchSeen(console, watches), err)
}

// kernelCommand runs the kernel in a process group of its own, because it has a process
// for each process inside. When it is contained, it is also alone with a shell in a
// process namespace: the end of the shell, which comes with the end of this process, is
// the end of all the others. The kernel cannot be the first process there itself, because
// that one cannot be aborted, which is how the kernel panics.
func kernelCommand(argv []string, contained bool) *exec.Cmd {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if contained {
		argv = append([]string{"/bin/sh", "-c", `"$0" "$@"; exit $?`}, argv...)
		attr.Cloneflags = syscall.CLONE_NEWPID
	}
	//allow:exec the machine ends it, by the power or with its whole group
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = "/"
	cmd.SysProcAttr = attr
	return cmd
}

// runKernel starts the kernel and waits for it. started is called once the kernel holds
// its descriptors, or will never do so.
func runKernel(ctx context.Context, command func(contained bool) *exec.Cmd, started func()) error {
	ended, running := make(chan error, 1), make(chan *exec.Cmd, 1)
	go func() {
		// The signal at the parent's death comes when the starting thread ends, so that
		// thread is kept until the kernel is gone.
		runtime.LockOSThread()
		cmd := command(true)
		err := cmd.Start()
		if errors.Is(err, syscall.EPERM) { // for root only, and not in every container
			cmd = command(false)
			err = cmd.Start()
		}
		started()
		if err != nil {
			ended <- err
			return
		}
		running <- cmd
		ended <- cmd.Wait()
	}()
	select {
	case err := <-ended:
		return err
	case cmd := <-running:
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			return <-ended
		}
	}
}

// verdict puts together what the kernel's init said, how the kernel ended and why it may
// have been killed.
func verdict(ctx context.Context, o Options, r *report, c *console, glitch string, ended error) (int, error) {
	if glitch != "" && (!r.exited || r.status != 0) && ctx.Err() == nil {
		return 0, &GlitchError{Line: glitch}
	}
	if line := c.outOfMemory(); line != "" {
		logf(o.Log, "out of memory: the throwaway kernel has %d MiB; give it more (%s)", o.MemoryMiB, line)
	}
	switch {
	case errors.Is(context.Cause(ctx), errRebooted):
		return 0, &DiedError{Reason: "was rebooted by the command", Console: c.tail()}
	case errors.Is(context.Cause(ctx), errStuck):
		return 0, &DiedError{Reason: fmt.Sprintf("did not get as far as the command in %v", bootLimit), Console: c.tail()}
	case r.exited:
		return r.status, nil
	case r.setup != "":
		return 0, &SetupError{Problem: r.setup, Console: c.tail()}
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	}
	var exit *exec.ExitError
	if ended != nil && !errors.As(ended, &exit) {
		return 0, fmt.Errorf("start the throwaway kernel: %w", ended)
	}
	reason := c.deathReason(r.started, ended)
	if !o.RAID6 && c.shows(`\[(async_pq|raid6_pq)\]|raid56`) {
		reason += "; RAID 6 has to be asked for in the options"
	}
	return 0, &DiedError{Reason: reason, Console: c.tail()}
}

// bootLimit is far more than a boot takes on a machine that is busy with other things.
const bootLimit = 3 * time.Minute

// Why the kernel was ended by this program, and not by its caller.
var (
	errRebooted = errors.New("the throwaway kernel was rebooted")
	errStuck    = errors.New("the throwaway kernel is stuck")
)

// readAll calls started when the command is about to be.
func (r *report) readAll(from io.Reader, c *console, started func()) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if err := r.read(strings.TrimRight(lines.Text(), "\r")); err != nil {
			fmt.Fprintf(c, "init's report: %v\n", err)
		}
		if r.started {
			started()
		}
	}
	_, _ = io.Copy(io.Discard, from)
}
