// Command storm runs the storms of package storm, one by one, and makes figures
// of what they have shown.
//
//	storm run [FLAGS]          one storm; its record goes to RECORDS/NAME.json
//	storm throughput [FLAGS]   both schedulers with pods without volumes
//	storm report [FLAGS]       from all records: bench/results/storm.json and docs
//
// make storm does all of it.
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
	"syscall"
	"time"

	"github.com/csi-local/csi-local/test/storm"
	"github.com/csi-local/csi-local/test/testbed"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "storm:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return errors.New("say what to do: run, throughput or report")
	}
	flags := flag.NewFlagSet("storm "+args[0], flag.ContinueOnError)
	flags.SetOutput(stderr)
	records := flags.String("records", ".cache/storm", "folder for records")
	var do func() error
	switch args[0] {
	case "run":
		do = runCommand(ctx, flags, records, stdout, stderr)
	case "throughput":
		do = throughputCommand(ctx, flags, records, stdout, stderr)
	case "report":
		do = reportCommand(flags, records, stdout)
	default:
		return fmt.Errorf("%q: use run, throughput or report", args[0])
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	return do()
}

// programFlags are where the schedulers and their configuration are.
func programFlags(flags *flag.FlagSet, programs *storm.Programs, config *string) {
	flags.StringVar(&programs.Local, "scheduler", "bin/csi-local-scheduler", "csi-local-scheduler, as make build-scheduler leaves it")
	flags.StringVar(&programs.Stock, "stock", "", "kube-scheduler; if empty, the testbed's is used, and built first if need be")
	flags.StringVar(config, "config", "deploy/scheduler/config.yaml", "csi-local-scheduler's configuration; kube-scheduler gets it without the plugin")
}

// findStock fills in the stock scheduler.
func findStock(ctx context.Context, programs *storm.Programs, progress io.Writer) (err error) {
	if programs.Stock == "" {
		programs.Stock, err = testbed.Scheduler.Path(ctx, progress)
	}
	return err
}

func runCommand(ctx context.Context, flags *flag.FlagSet, records *string, stdout, stderr io.Writer) func() error {
	o := storm.Options{Progress: stderr}
	programFlags(flags, &o.Programs, &o.Config)
	flags.IntVar(&o.Nodes, "nodes", 10, "nodes")
	flags.IntVar(&o.PodsPerNode, "pods", 100, "pods for each node, with one volume each")
	tracking := flags.String("tracking", string(storm.Local), "who knows of capacity: local, intree or none")
	flags.BoolVar(&o.WithoutVolumes, "without-volumes", false, "the same pods without volumes")
	flags.IntVar(&o.FillPercent, "fill", 100, "demand in percent of the capacity")
	flags.Uint64Var(&o.Seed, "seed", 1, "decides sizes, classes and how long volumes take")
	flags.Float64Var(&o.PodsPerSecond, "rate", 10, "pods created in a second; 0 for as fast as it goes")
	flags.DurationVar(&o.CreateLatency, "create-latency", 100*time.Millisecond, "mean time of one CreateVolume, of which a node has one at a time")
	flags.IntVar(&o.Turns, "turns", 0, "how often the scheduler is killed: in turn the leader, and both")
	flags.DurationVar(&o.Quiet, "quiet", 2*time.Minute, "a storm ends when nothing was bound for so long")
	flags.DurationVar(&o.Limit, "limit", 15*time.Minute, "a storm ends so long after its last pod was created")
	flags.IntVar(&o.LogLevel, "v", 0, "the scheduler's log level")
	flags.BoolVar(&o.KeepLogs, "keep-logs", false, "keep the programs' logs, and say where")
	missing := flags.Bool("missing", false, "do nothing if there is the record of this storm already")
	return func() error {
		o.Tracking = storm.Tracking(*tracking)
		if _, err := os.Stat(filepath.Join(*records, o.Name()+".json")); err == nil && *missing {
			return nil
		}
		if o.Tracking != storm.Local {
			if err := findStock(ctx, &o.Programs, stderr); err != nil {
				return err
			}
		}
		record, err := storm.Run(ctx, o)
		if err != nil {
			return err
		}
		if err := storm.WriteRecord(*records, record.Name, record); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(stdout, "%s: %d of %d pods bound in %.1f s, %d failed creates, %d stuck that fit; %s\n", record.Name, record.Bound, record.Pods,
			record.Seconds, record.FailedCreates, record.StuckThatFit, filepath.Join(*records, record.Name+".json"))
		if o.Tracking == storm.Local {
			return record.Err()
		}
		return nil
	}
}

func throughputCommand(ctx context.Context, flags *flag.FlagSet, records *string, stdout, stderr io.Writer) func() error {
	o := storm.ThroughputOptions{Progress: stderr}
	programFlags(flags, &o.Programs, &o.Config)
	flags.IntVar(&o.Nodes, "nodes", 100, "nodes")
	flags.IntVar(&o.Pods, "pods", 3000, "pods for each scheduler in a round")
	flags.IntVar(&o.Rounds, "rounds", 15, "rounds")
	missing := flags.Bool("missing", false, "do nothing if there is a record already")
	return func() error {
		if _, err := os.Stat(filepath.Join(*records, throughputName+".json")); err == nil && *missing {
			return nil
		}
		if err := findStock(ctx, &o.Programs, stderr); err != nil {
			return err
		}
		record, err := storm.Throughput(ctx, o)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(stdout, "throughput: %d rounds; %s\n", o.Rounds, filepath.Join(*records, throughputName+".json"))
		return storm.WriteRecord(*records, throughputName, record)
	}
}

// throughputName is the record's, among those of the storms.
const throughputName = "throughput"
