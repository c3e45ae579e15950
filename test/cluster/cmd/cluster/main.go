// Command cluster brings up a whole Kubernetes cluster in throwaway kernels, with the images
// of the shipped manifests on every node, and takes it down again.
//
//	cluster [-dir DIR] up [-nodes N] [-install OVERLAY]   until "down"; OVERLAY is a folder of deploy/manifests
//	cluster [-dir DIR] down                      end it, and remove what it has written
//	cluster [-dir DIR] kubectl ARGUMENT...       kubectl, as an administrator
//	cluster [-dir DIR] exec COMMAND...           any command in the cluster's network, with KUBECONFIG set
//	cluster [-dir DIR] node NAME run COMMAND...  a command in the node's kernel
//	cluster [-dir DIR] node NAME VERB            power-cut, start, reboot, cut-network, restore-network, replace
//	cluster build                                only build what "up" needs
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/csi-local/csi-local/test/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err == nil {
		return
	}
	var failed *cluster.CommandError
	if errors.As(err, &failed) {
		_, _ = fmt.Fprint(os.Stdout, failed.Stdout)
		_, _ = fmt.Fprint(os.Stderr, failed.Stderr)
		os.Exit(failed.Status)
	}
	_, _ = fmt.Fprintln(os.Stderr, "cluster:", err)
	os.Exit(1)
}

var errUsage = errors.New("usage: cluster [-dir DIR] up | down | kubectl | exec | node | build (go doc ./test/cluster/cmd/cluster)")

func run(ctx context.Context, args []string) error {
	if cluster.InNode() {
		return cluster.Enter(ctx, os.Stderr) // and does not return
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	dir := flags.String("dir", filepath.Join(cache, "csi-local", "cluster"), "where the cluster keeps its files")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir, err = filepath.Abs(*dir); err != nil {
		return err
	}
	rest := flags.Args()
	if len(rest) == 0 {
		return errUsage
	}
	verb, rest := rest[0], rest[1:]
	c := client{dir: *dir}
	switch {
	case verb == "up":
		return up(ctx, c, rest)
	case verb == "serve": // what "up" starts
		return serve(ctx, *dir, rest)
	case verb == "build":
		return cluster.Prepare(ctx, os.Stderr)
	case verb == "down":
		return c.down(ctx)
	case verb == "kubectl":
		return c.exec(func(s state) []string { return append([]string{s.Kubectl}, rest...) })
	case verb == "exec" && len(rest) > 0:
		return c.exec(func(state) []string { return rest })
	case verb == "node" && len(rest) >= 2:
		return c.node(ctx, rest[0], rest[1], rest[2:])
	}
	return errUsage
}
