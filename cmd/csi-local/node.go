package main

import (
	"context"
	"errors"
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
	return opts, parseServiceFlags("node", opts.addFlags, args, stdout)
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
