package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/klog/v2"
)

// nodeCommand reads the flags of csi-local node and runs it until ctx ends.
func nodeCommand(ctx context.Context, args []string, stdout io.Writer) error {
	opts, err := parseNodeFlags(args, stdout)
	if err != nil {
		return err
	}
	if err := opts.validate(); err != nil {
		return fmt.Errorf("%w:\n%w", errUsage, err)
	}
	defer klog.Flush()
	if opts.publish.cleanup {
		return opts.runCleanup(ctx, versionString(), stdout)
	}
	n, err := newNode(opts, versionString())
	if err != nil {
		return err
	}
	return errors.Join(n.run(ctx), n.close())
}

// parseNodeFlags prints the flags to stdout when it is asked for help.
func parseNodeFlags(args []string, stdout io.Writer) (*nodeOptions, error) {
	opts := &nodeOptions{}
	fs := nodeFlagSet(opts)
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		if _, err := io.WriteString(stdout, "Flags of csi-local node (one dash or two):\n\n"); err != nil {
			return nil, err
		}
		fs.SetOutput(stdout)
		fs.PrintDefaults()
		return nil, flag.ErrHelp
	case err != nil:
		return nil, fmt.Errorf("%w: %w; csi-local node -h lists the flags", errUsage, err)
	case fs.NArg() > 0:
		return nil, fmt.Errorf("%w: unexpected argument %q; all arguments of node are flags", errUsage, fs.Arg(0))
	}
	return opts, nil
}

// nodeFlagSet declares the flags of csi-local node and those of the logs.
func nodeFlagSet(opts *nodeOptions) *flag.FlagSet {
	fs := flag.NewFlagSet("node", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are printed once, by run
	fs.Usage = func() {}
	opts.addFlags(fs)
	klog.InitFlags(fs)
	return fs
}

// prepareFolders makes the folders that the process writes to.
func (o *nodeOptions) prepareFolders(socketPath string) error {
	for _, dir := range []string{filepath.Dir(socketPath), filepath.Dir(o.adminSocketPath()), o.lvmRunDir, o.metadataBackupDir} {
		if dir == "" {
			continue
		}
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return err
		}
	}
	return nil
}
