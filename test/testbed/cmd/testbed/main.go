// Command testbed starts a control plane for people and scripts.
//
//	testbed                  start one, say how to use it, wait for Ctrl-C
//	testbed -- COMMAND...    run the command with KUBECONFIG set
//	testbed -build           only build the programs, if they are not built yet
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/csi-local/csi-local/test/testbed"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "testbed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	build := flag.Bool("build", false, "only build the programs that the tests need")
	manager := flag.Bool("controller-manager", false, "start a controller manager too")
	flag.Parse()
	kubectl, err := testbed.Kubectl.Path(ctx, os.Stderr)
	if err != nil {
		return err
	}
	if *build {
		for _, program := range []testbed.Program{testbed.Etcd, testbed.APIServer, testbed.ControllerManager} {
			if _, err := program.Path(ctx, os.Stderr); err != nil {
				return err
			}
		}
		return nil
	}
	start := time.Now()
	cluster, err := testbed.Start(ctx, testbed.Options{ControllerManager: *manager})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	_, _ = fmt.Fprintf(os.Stderr, "testbed: ready after %.1f s\n", time.Since(start).Seconds())
	if flag.NArg() == 0 {
		_, _ = fmt.Fprintf(os.Stderr, "export KUBECONFIG=%s PATH=%s:$PATH\nlogs: %s\nCtrl-C ends it\n",
			cluster.KubeconfigPath(), filepath.Dir(kubectl), cluster.LogDir())
		<-ctx.Done()
		return nil
	}
	command := exec.CommandContext(ctx, flag.Arg(0), flag.Args()[1:]...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.Env = append(os.Environ(), "KUBECONFIG="+cluster.KubeconfigPath(), "PATH="+filepath.Dir(kubectl)+":"+os.Getenv("PATH"))
	return command.Run()
}
