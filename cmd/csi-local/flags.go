package main

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"k8s.io/klog/v2"
)

// newFlagSet returns an empty set that prints nothing by itself: run prints each
// error once.
func newFlagSet(command string) *flag.FlagSet {
	fs := flag.NewFlagSet(command, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	return fs
}

// serviceFlagSet has the flags of a command that serves, and those of the logs.
func serviceFlagSet(command string, addFlags func(*flag.FlagSet)) *flag.FlagSet {
	fs := newFlagSet(command)
	addFlags(fs)
	klog.InitFlags(fs)
	return fs
}

// parseServiceFlags reads the flags of a command that serves; it has no other
// arguments. It prints them to stdout when it is asked for help.
func parseServiceFlags(command string, addFlags func(*flag.FlagSet), args []string, stdout io.Writer) error {
	fs := serviceFlagSet(command, addFlags)
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		if _, err := fmt.Fprintf(stdout, "Flags of csi-local %s (one dash or two):\n\n", command); err != nil {
			return err
		}
		fs.SetOutput(stdout)
		fs.PrintDefaults()
		return flag.ErrHelp
	case err != nil:
		return fmt.Errorf("%w: %w; csi-local %s -h lists the flags", errUsage, err, command)
	case fs.NArg() > 0:
		return fmt.Errorf("%w: unexpected argument %q; all arguments of %s are flags", errUsage, fs.Arg(0), command)
	}
	return nil
}
