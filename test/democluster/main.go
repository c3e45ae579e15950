// Command democluster shows csi-local in a whole Kubernetes cluster: it starts one on
// throwaway kernels (test/cluster), installs the chart with Helm, and does what users and
// administrators do, with the commands that they would type. Each step checks what it
// shows; the exit status is other than zero if anything was not as it should be.
//
//	democluster -helm FILE -csi-local FILE [-keep] [-terminal auto|always|never]
//
// It is started in the repository's root. Nothing is left behind.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/csi-local/csi-local/test/cluster"
	"github.com/csi-local/csi-local/test/screen"
	"github.com/csi-local/csi-local/test/vm"
)

// envBegan tells the second process of cluster.Enter that the first has introduced itself.
const envBegan = "DEMO_CLUSTER_BEGAN"

// stopPatience is what the end may take after the run was interrupted.
const stopPatience = time.Minute

type options struct {
	helm, csiLocal, terminal string
	keep                     bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(status)
}

func run(ctx context.Context, args []string, out *os.File) int {
	if cluster.InNode() {
		_ = cluster.Enter(ctx, os.Stderr) // it does not return
	}
	var o options
	flags := flag.NewFlagSet("democluster", flag.ContinueOnError)
	flags.StringVar(&o.helm, "helm", "bin/tools/helm", "the `program` helm")
	flags.StringVar(&o.csiLocal, "csi-local", "bin/csi-local", "the `program` csi-local")
	flags.StringVar(&o.terminal, "terminal", "auto", "colours and moving progress: auto (on a terminal), always or never")
	flags.BoolVar(&o.keep, "keep", false, "leave everything as it is after the last step, until it is interrupted")
	if err := flags.Parse(args); err != nil {
		return vm.StatusFailed
	}
	p := screen.New(out, o.terminal == "always" || o.terminal == "auto" && screen.IsTerminal(out))
	if err := show(ctx, p, o); err != nil {
		p.Failure(err, "")
		return 1
	}
	return 0
}

func show(ctx context.Context, p *screen.Printer, o options) (err error) {
	if os.Getenv(envBegan) == "" {
		introduce(p, o)
		if err := os.Setenv(envBegan, time.Now().Format(time.RFC3339Nano)); err != nil {
			return err
		}
	}
	if err := cluster.Enter(ctx, lines{p}); err != nil {
		return err
	}
	began, err := time.Parse(time.RFC3339Nano, os.Getenv(envBegan))
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "csi-local-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	d := &demo{p: p, folder: folder}
	for program, path := range map[*string]string{&d.helm: o.helm, &d.csiLocal: o.csiLocal} {
		if *program, err = filepath.Abs(path); err != nil {
			return err
		}
	}
	return d.run(ctx, steps(o.keep), began)
}

// run does all steps, and ends the cluster however that went.
func (d *demo) run(ctx context.Context, all []step, began time.Time) error {
	var done []screen.Finished
	for i, s := range all {
		d.p.Step(i+1, len(all), s.title)
		start := time.Now()
		do := func() error { return s.do(d, ctx) }
		if !s.waits {
			working := do
			do = func() error { return d.p.During("working", working) }
		}
		if err := do(); err != nil {
			err = fmt.Errorf("step %d, %q: %w", i+1, s.title, err)
			if d.c != nil {
				err = errors.Join(err, fmt.Errorf("the logs are in %s", d.c.LogDir()), d.c.StopKeepingLogs())
			}
			return err
		}
		done = append(done, screen.Finished{Title: s.title, Took: time.Since(start)})
	}
	d.p.Summary(done, "in all, with what was built before", time.Since(began))
	d.p.Success("Everything was as it should be, and nothing is left of it.")
	return nil
}

func introduce(p *screen.Printer, o options) {
	p.Line("%s: pods with local volumes in a real cluster\n", p.Paint(screen.Bold, "csi-local demo-cluster"))
	p.Line("  what     etcd, kube-apiserver, kube-controller-manager and kube-scheduler on this machine; two nodes,")
	p.Line("           each a throwaway kernel (user-mode Linux) with containerd, kubelet and LVM. Helm installs")
	p.Line("           csi-local; then come a StatefulSet, a storm of pods, a volume group that grows, a lost node.")
	p.Line("  needs    4 GiB of memory and 10 GiB of disk; this machine's own disks, network and clusters are not")
	p.Line("           touched. Each node has one slow processor: a real one is several times as fast")
	p.Line("  builds   Kubernetes, etcd, the sidecars and our images, from source: half an hour the first time on")
	p.Line("           two processors, then they are kept (a minute for what has changed)")
	p.Line("  length   %d steps, about ten minutes", len(steps(o.keep)))
	p.Line("  shown    the commands as you would type them, and what they print, long tables shortened")
}

// lines prints what is told of builds.
type lines struct{ p *screen.Printer }

func (l lines) Write(text []byte) (int, error) {
	for line := range strings.Lines(string(text)) {
		l.p.Line("  build    %s", strings.TrimPrefix(strings.TrimSpace(line), "cluster: "))
	}
	return len(text), nil
}

var _ io.Writer = lines{}
