// Command vm runs a command in a kernel of its own, with disks of its own. See
// docs/throwaway-kernel.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/csi-local/csi-local/test/vm"
)

const statusUsage = 2

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f, err := parseFlags(args)
	if err != nil {
		fmt.Fprintf(stderr, "vm: %v\nvm: see vm --help\n", err)
		return statusUsage
	}
	switch {
	case f.help:
		fmt.Fprint(stdout, usage())
		return 0
	case f.printPackages:
		fmt.Fprintln(stdout, strings.Join(vm.Packages(), " "))
		return 0
	}
	f.options.Stdout, f.options.Stderr, f.options.Log = stdout, stderr, stderr
	if f.console {
		f.options.Console = stderr
	}
	machine, err := vm.Start(ctx, f.options)
	if err != nil {
		fmt.Fprintln(stderr, "vm:", err)
		var wrong *vm.OptionError
		if errors.As(err, &wrong) {
			return statusUsage
		}
		return vm.StatusFailed
	}
	if f.cutAfter > 0 {
		// The flag asks for UML, whose power can be cut.
		cut := time.AfterFunc(f.cutAfter, func() { _ = machine.CutPower() })
		defer cut.Stop()
	}
	status, err := machine.Wait()
	if err != nil {
		fmt.Fprintln(stderr, "vm:", err)
	}
	return vm.ExitStatus(status, err)
}
