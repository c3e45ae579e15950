package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/csi-local/csi-local/test/cluster"
)

// lookEvery is the time between two looks at something that is waited for.
const lookEvery = 200 * time.Millisecond

func up(ctx context.Context, c client, args []string) error {
	flags := flag.NewFlagSet("cluster up", flag.ContinueOnError)
	nodes := flags.Int("nodes", 2, "how many nodes")
	install := flags.String("install", "", "a folder of deploy/manifests to apply, such as second-scheduler")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if c.answers(ctx) {
		return fmt.Errorf("a cluster runs in %s already: cluster down ends it", c.dir)
	}
	began := time.Now()
	// Built here, where progress can be seen.
	if err := cluster.Prepare(ctx, os.Stderr); err != nil {
		return err
	}
	if err := os.RemoveAll(c.dir); err != nil { // of one that was killed
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.dir), 0o755); err != nil {
		return err
	}
	if err := startServer(ctx, c, *nodes); err != nil {
		return err
	}
	s, err := c.state()
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(os.Stderr, "cluster: %d nodes are Ready after %.0f s; logs: %s\n", *nodes, time.Since(began).Seconds(), s.Logs)
	if *install == "" {
		return nil
	}
	return c.exec(func(s state) []string {
		return []string{s.Kubectl, "apply", "-k", filepath.Join(s.Manifests, *install)}
	})
}

// startServer leaves a process behind that is the cluster, and returns when it is ready.
func startServer(ctx context.Context, c client, nodes int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.Create(c.dir + ".log")
	if err != nil {
		return err
	}
	defer log.Close()
	//allow:exec it outlives this process; cluster down ends it
	server := exec.Command(self, "-dir", c.dir, "serve", strconv.Itoa(nodes))
	server.Stdout, server.Stderr = log, log
	server.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := server.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			text, readErr := os.ReadFile(log.Name())
			return errors.Join(fmt.Errorf("the cluster did not start: %w\n%s", err, text), readErr)
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), server.Process.Signal(syscall.SIGTERM), <-ended)
		case <-tick.C:
		}
		if c.answers(ctx) {
			return nil
		}
	}
}
