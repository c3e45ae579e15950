// Command cluster measures pods with volumes of csi-local in a whole cluster: a control
// plane on this machine and one node in a throwaway kernel (test/cluster), with the shipped
// manifests. It writes bench/results/cluster.json.
//
// All times are of one node with one slow processor. What a pod costs there without a
// volume is measured in the same run, by turns, and the goals are set against it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/csi-local/csi-local/bench/result"
	"github.com/csi-local/csi-local/test/cluster"
	"github.com/csi-local/csi-local/test/cluster/installed"
)

type options struct {
	results, page string
	repeats       int
	singles       int
	storms, kills int
	idle          time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "bench-cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if cluster.InNode() {
		return cluster.Enter(ctx, os.Stderr) // and does not return
	}
	var o options
	flags := flag.NewFlagSet("bench-cluster", flag.ContinueOnError)
	flags.StringVar(&o.results, "results", "bench/results", "the `folder` for cluster.json")
	flags.StringVar(&o.page, "page", "", "a `file` whose figures are to be these, such as docs/weight.md")
	flags.IntVar(&o.repeats, "repeats", 5, "how often one pod, twenty pods, and fourteen for ten volumes are measured")
	flags.IntVar(&o.singles, "singles", 2, "single pods of each kind in one repeat")
	flags.IntVar(&o.storms, "storms", 2, "storms of pods whose volumes fit exactly")
	flags.IntVar(&o.kills, "kills", 50, "programs killed")
	flags.DurationVar(&o.idle, "idle", 4*time.Minute, "how long the idle cluster is looked at")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.repeats < 1 || o.singles < 1 || o.storms < 1 || o.kills < 1 {
		return errors.New("what is not measured cannot meet its goal: -repeats, -singles, -storms and -kills are at least 1")
	}
	if err := cluster.Enter(ctx, os.Stderr); err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Options{
		Disks: []cluster.Disk{{SizeBytes: 1024 * mib, VolumeGroup: installed.VolumeGroup}},
		// Programs that are killed on purpose again and again are started again at once.
		Kubelet: map[string]any{"crashLoopBackOff": map[string]any{"maxContainerRestartPeriod": "1s"}},
	})
	if err != nil {
		return err
	}
	var set result.Set
	if err := measure(ctx, &bed{Cluster: c}, o, &set); err != nil {
		return errors.Join(err, fmt.Errorf("the logs are in %s", c.LogDir()), c.StopKeepingLogs())
	}
	err = errors.Join(c.Stop(), set.Print(os.Stdout), set.Write(o.results, "cluster"))
	if err == nil && o.page != "" {
		err = writePage(filepath.Join(o.results, "cluster.json"), o.page)
	}
	return errors.Join(err, set.Err())
}

// goals, in seconds.
const (
	goalBound         = 1.5
	goalMoreThanPlain = 3
	goalTwentyBound   = 40
	goalTwentyRunning = 120
	goalKills         = 50 // and this is counted
)

func measure(ctx context.Context, b *bed, o options, set *result.Set) error {
	if err := b.install(ctx); err != nil {
		return err
	}
	idle, err := b.idle(ctx, o.idle)
	if err != nil {
		return err
	}
	var times figures
	for i := range o.repeats {
		if err := b.repeat(ctx, o.singles, &times); err != nil {
			return fmt.Errorf("repeat %d: %w", i+1, err)
		}
		sayf("repeat %d of %d: %s", i+1, o.repeats, &times)
	}
	storms := 0
	load, err := b.weigh(ctx, func() error {
		for range o.storms {
			failed, err := b.storm(ctx)
			if err != nil {
				return fmt.Errorf("storm: %w", err)
			}
			storms += failed
		}
		return nil
	})
	if err != nil {
		return err
	}
	requests, err := b.requestsPerHour(ctx, idle)
	if err != nil {
		return err
	}
	killed, leaked, err := b.kills(ctx, o.kills)
	if err != nil {
		return fmt.Errorf("kills: %w", err)
	}
	image, err := b.imageBytes(ctx)
	if err != nil {
		return err
	}
	plain := math.Round(100*median(times.plainRunning)) / 100
	set.AtMost("claim_bound_p50_seconds", median(times.bound), "s", goalBound)
	set.AtMost("pod_running_p50_seconds", median(times.running), "s", plain+goalMoreThanPlain)
	set.Report("pod_without_volume_running_p50_seconds", plain, "s")
	set.AtMost("twenty_bound_seconds", median(times.twentyBound), "s", goalTwentyBound)
	set.AtMost("twenty_running_seconds", median(times.twentyRunning), "s", goalTwentyRunning)
	set.AtMost("twenty_provisioning_failed", float64(times.twentyFailed), "count", 0)
	set.AtMost("fourteen_for_ten_failed_creates", float64(times.fourteenFailed), "count", 0)
	set.AtMost("storm_real_failed_creates", float64(storms), "count", 0)
	set.AtLeast("kill_rounds", float64(killed), "count", goalKills)
	set.AtMost("kill_leaked_volumes", float64(leaked), "count", 0)
	set.Report("image_mib", float64(image)/float64(mib), "MiB")
	set.Report("daemonset_rss_mib_idle", float64(idle.rssBytes)/float64(mib), "MiB")
	set.Report("daemonset_cpu_millicores_idle", idle.millicores, "millicores")
	set.Report("daemonset_rss_mib_load", float64(load.peakBytes)/float64(mib), "MiB")
	set.Report("daemonset_cpu_millicores_load", load.millicores, "millicores")
	set.Report("api_requests_per_node_hour_idle", requests, "1/h")
	return nil
}

// sayf tells how far it is.
func sayf(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stderr, "bench-cluster: "+format+"\n", args...)
}
