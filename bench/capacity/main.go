// Command capacity measures what the capacity reporters of a whole cluster ask of
// its API server: one process runs a reporter for each of many nodes, against a
// real API server and etcd, each as a service account of its own node and on a
// connection of its own.
//
// The reporters' clock can run faster than time does. Where it does, it is said
// below; changes and what follows on them are measured in real time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/csi-local/csi-local/bench/result"
	"github.com/csi-local/csi-local/pkg/capacity/reporter"
)

type options struct {
	nodes     int
	idle      time.Duration
	rate      float64
	spread    time.Duration
	include   string
	resultDir string
}

// spreadPerNode is what docs/reporter.md advises for large clusters.
const spreadPerNode = 20 * time.Millisecond

// urgentShare is what csi-local node makes of --publish-spread for lower figures.
const urgentShare = 5

func (o options) settings() reporter.Settings {
	s := reporter.DefaultSettings()
	s.Spread, s.UrgentSpread = o.spread, o.spread/urgentShare
	return s
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-capacity:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	opts := options{}
	flags := flag.NewFlagSet("bench-capacity", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&opts.nodes, "nodes", 2000, "how many nodes the cluster has")
	flags.DurationVar(&opts.idle, "idle", 10*time.Minute, "how long nothing happens, by the reporters' clock")
	flags.Float64Var(&opts.rate, "rate", 60, "how much faster the reporters' clock runs during that time")
	flags.DurationVar(&opts.spread, "spread", 0, "the nodes' --publish-spread; what docs/reporter.md advises if 0")
	flags.StringVar(&opts.include, "include", "", "file with figures to be added, as test/capacity writes it")
	flags.StringVar(&opts.resultDir, "results", "bench/results", "folder for capacity.json")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if opts.spread == 0 {
		opts.spread = max(reporter.DefaultSettings().Spread, time.Duration(opts.nodes)*spreadPerNode)
	}
	var results result.Set
	if opts.include != "" {
		if err := results.Include(opts.include); err != nil {
			return err
		}
	}
	if err := measureFleet(ctx, opts, stderr, &results); err != nil {
		return err
	}
	if err := results.Print(stdout); err != nil {
		return err
	}
	if err := results.Write(opts.resultDir, "capacity"); err != nil {
		return err
	}
	return results.Err()
}

// The pools' bytes: at first, after they were lowered, after they were raised.
const firstBytes, lowBytes, highBytes = 8 * gib, 4 * gib, 6 * gib

// changeWindow is the time in which all volume groups change.
const changeWindow = time.Second

// patience bounds each wait for all nodes.
const patience = 5 * time.Minute

// bench is one run.
type bench struct {
	*fleet
	opts    options
	stderr  io.Writer
	results *result.Set
	stall   stall
}

func measureFleet(ctx context.Context, opts options, stderr io.Writer, results *result.Set) (err error) {
	b := &bench{opts: opts, stderr: stderr, results: results}
	b.say("making a cluster of %d nodes with --publish-spread=%v", opts.nodes, opts.spread)
	if b.fleet, err = newFleet(ctx, opts); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.end()) }()
	go b.stall.watch(ctx)
	memory, err := b.measureStart(ctx)
	if err != nil {
		return err
	}
	if err := b.measureIdle(ctx); err != nil {
		return err
	}
	if err := b.measureChange(ctx, "", lowBytes, 0, b.settings.UrgentSpread); err != nil {
		return err
	}
	if err := b.measureChange(ctx, "raised_", highBytes, b.settings.RaiseDelay, b.settings.Spread); err != nil {
		return err
	}
	results.AtMost("reporter_rss_kib_each", float64(memory)/1024/float64(opts.nodes), "KiB", mostMemoryKiB)
	return nil
}

func (b *bench) say(format string, args ...any) {
	_, _ = fmt.Fprintf(b.stderr, "bench-capacity: "+format+"\n", args...)
}

// metric names a figure of this size of cluster.
func (b *bench) metric(what string) string { return fmt.Sprintf("reporters_%d_%s", b.opts.nodes, what) }

// measureStart starts all reporters at once, with nothing published, and returns
// how much memory they take.
func (b *bench) measureStart(ctx context.Context) (memoryBytes int64, err error) {
	before, err := residentBytes()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := b.start(ctx); err != nil {
		return 0, err
	}
	started := time.Since(began)
	if err := b.wait(ctx, firstBytes, patience); err != nil {
		return 0, err
	}
	t, err := b.traffic(ctx, began)
	if err != nil {
		return 0, err
	}
	b.say("start: %d reporters within %.1f s; %v", b.opts.nodes, started.Seconds(), t)
	after, err := residentBytes()
	return after - before, err
}

// measureIdle lets time pass in which nothing happens.
func (b *bench) measureIdle(ctx context.Context) error {
	looks := func() (sum int64) {
		for _, n := range b.nodes {
			sum += n.looks.Load()
		}
		return sum
	}
	before, began := looks(), time.Now()
	if err := b.pass(ctx, b.opts.idle, b.opts.rate); err != nil {
		return err
	}
	t, err := b.traffic(ctx, began)
	if err != nil {
		return err
	}
	looked := float64(looks()-before) / float64(len(b.nodes))
	b.say("idle: %v at %g times the speed; each reporter looked %.1f times; %v", b.opts.idle, b.opts.rate, looked, t)
	if least := float64(b.opts.idle/b.settings.Resync) / 2; looked < least {
		return fmt.Errorf("each reporter looked %.1f times during %v, at least %.0f are needed for this to show something", looked, b.opts.idle, least)
	}
	b.results.AtMost(b.metric("idle_writes"), float64(t.writes), "count", 0)
	return nil
}

// measureChange changes all volume groups within one second. By the flags each node
// writes delay later, at a random moment of spread.
func (b *bench) measureChange(ctx context.Context, prefix string, bytes int64, delay, spread time.Duration) error {
	b.stall.take()
	began := b.change(bytes, changeWindow)
	if err := b.wait(ctx, bytes, delay+patience); err != nil {
		return err
	}
	t, err := b.traffic(ctx, began)
	if err != nil {
		return err
	}
	b.say("all volume groups have %d bytes, after %v and within %v: %v; this process stood still for up to %v", bytes, delay, spread, t, b.stall.take())
	b.results.AtMost(b.metric(prefix+"peak_writes_per_second"), float64(t.peak), "1/s", peakBound(b.opts.nodes, spread))
	b.results.AtMost(b.metric(prefix+"all_published_seconds"), t.last.Seconds(), "s", (changeWindow + delay + spread + serverTime).Seconds())
	return nil
}

// mostMemoryKiB is what one reporter may take, its client and connection included.
const mostMemoryKiB = 512

// serverTime is what the API server may take for a write, under this load.
const serverTime = 2 * time.Second

// peakBound is the most writes that come within a second if each of the nodes makes
// one within spread, at random: the mean, and five standard deviations for chance,
// because the second is looked for wherever it begins.
func peakBound(nodes int, spread time.Duration) float64 {
	mean := float64(nodes) / math.Max(spread.Seconds(), 1)
	return math.Min(math.Ceil(mean+5*math.Sqrt(mean)), float64(nodes))
}
