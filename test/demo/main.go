// Command demo shows the life of real volumes on real LVM: it starts the driver as a user
// would and makes the calls that csi-provisioner and kubelet make, with what LVM and the
// mount table say after each step. It exits with a status other than zero if anything was
// not as it should be.
//
// It runs in a throwaway kernel, or on loop devices where the host has device mapper and
// the caller is root; either way nothing is left behind. See package vm.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/csi-local/csi-local/test/screen"
	"github.com/csi-local/csi-local/test/vm"
)

const (
	// timeLimit bounds the whole run; what is expected is far below it.
	timeLimit = 10 * time.Minute
	// diskBytes is the size of each of the two disks.
	diskBytes = 2 << 30
)

type options struct {
	backend  string
	terminal string
	driver   string // path of csi-local; the outer process sets it for the inner one
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(status)
}

func run(ctx context.Context, args []string, out *os.File) int {
	var o options
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.StringVar(&o.backend, "backend", "auto", "where it runs: auto, uml (throwaway kernel) or host (loop devices)")
	flags.StringVar(&o.terminal, "terminal", "auto", "colours and moving progress: auto (on a terminal), always or never")
	flags.StringVar(&o.driver, "driver", "", "a csi-local binary to use instead of building one")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	p := screen.New(out, o.terminal == "always" || o.terminal == "auto" && screen.IsTerminal(out))
	if vm.Inside() {
		return inside(ctx, p, o.driver)
	}
	status, err := outside(ctx, p, out, o)
	if err != nil {
		p.Failure(err, "")
		return max(status, 1)
	}
	return status
}

// outside builds the driver and starts this same program in a machine with two disks.
func outside(ctx context.Context, p *screen.Printer, out io.Writer, o options) (int, error) {
	introduce(p, len(steps()))
	dir, err := os.MkdirTemp("", "csi-local-demo-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if o.driver == "" {
		o.driver = filepath.Join(dir, "csi-local")
		if err := p.During("building csi-local", func() error { return buildDriver(ctx, o.driver) }); err != nil {
			return 1, err
		}
	}
	driver, err := filepath.Abs(o.driver)
	if err != nil {
		return 1, err
	}
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	terminal := "never"
	if p.Terminal() {
		terminal = "always"
	}
	machine, err := vm.Start(ctx, vm.Options{
		Command: []string{self, "--terminal", terminal, "--driver", driver},
		Disks:   []vm.Disk{{SizeBytes: diskBytes}, {SizeBytes: diskBytes}},
		Backend: vm.Backend(o.backend),
		Timeout: timeLimit,
		Stdout:  out,
		Stderr:  out,
		Log:     machineLog{p},
	})
	if err != nil {
		return 1, err
	}
	showPlace(p, machine.Backend())
	status, err := machine.Wait()
	return vm.ExitStatus(status, err), err
}

// machineLog shows what the machine says of itself: why it runs where it does, and
// whether it had to begin anew.
type machineLog struct{ p *screen.Printer }

func (l machineLog) Write(text []byte) (int, error) {
	for line := range strings.Lines(string(text)) {
		l.p.Line("  machine  %s", strings.TrimPrefix(strings.TrimSpace(line), "vm: "))
	}
	return len(text), nil
}

func buildDriver(ctx context.Context, path string) error {
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/csi-local/csi-local/cmd/csi-local")
	if output, err := build.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("go build: %w", err), errors.New(strings.TrimSpace(string(output))))
	}
	return nil
}
