// Command sim compares ways of tracking capacity on a simulated cluster; see
// docs/simulator.md.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/csi-local/csi-local/test/sim"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "sim:", err)
		os.Exit(1)
	}
}

// report is the JSON.
type report struct {
	Options sim.Options   `json:"options"`
	Seeds   int           `json:"seeds"`
	Summary []sim.Summary `json:"summary"`
	Results []sim.Result  `json:"results"`
}

func run(args []string, out io.Writer) error {
	o := sim.Options{Timing: sim.DefaultTiming(), Platform: sim.DefaultPlatform()}
	flags := flag.NewFlagSet("sim", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.IntVar(&o.Nodes, "nodes", 100, "nodes")
	flags.IntVar(&o.Pods, "pods", 10000, "pods")
	seeds := flags.Int("seeds", 5, "how many traces, of seeds 1, 2, ...")
	sizes := flags.String("sizes", "1", "sizes of claims in GiB, separated by commas")
	flags.IntVar(&o.MaxClaims, "claims", 1, "claims of a pod at most")
	flags.Float64Var(&o.Demand, "demand", 1, "claimed bytes in parts of the pools'")
	flags.Float64Var(&o.Rate, "rate", 4.65, "pods per second; 0: all at once")
	flags.BoolVar(&o.Steady, "steady", false, "pods come at equal distances")
	flags.Float64Var(&o.ShortLived, "short-lived", 0, "part of the pods that are deleted again")
	flags.DurationVar(&o.Lifetime, "lifetime", 0, "mean life of short-lived pods")
	flags.Float64Var(&o.Platform.ControllerQPS, "controller-qps", o.Platform.ControllerQPS, "kube-controller-manager's --kube-api-qps")
	flags.Float64Var(&o.Platform.SchedulerQPS, "scheduler-qps", o.Platform.SchedulerQPS, "kube-scheduler's client QPS")
	old := flags.Bool("kubernetes-1.22", false, "the scheduler of Kubernetes 1.22, which the published measurements had")
	names := flags.String("variants", "", "variants, separated by semicolons; all if empty")
	file := flags.String("json", "", "write the results to this file, too")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	o.Platform.ControllerBurst = o.Platform.ControllerQPS * 1.5
	o.Platform.SchedulerBurst = o.Platform.SchedulerQPS * 2
	if *old {
		o.Platform.CapacityScoring, o.Platform.PopFromBackoff = false, false
	}
	for _, size := range strings.Split(*sizes, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(size), 10, 64)
		if err != nil {
			return fmt.Errorf("-sizes: %w", err)
		}
		o.SizesGiB = append(o.SizesGiB, n)
	}
	variants := sim.Variants()
	if *names != "" {
		variants = nil
		for _, name := range strings.Split(*names, ";") {
			variants = append(variants, sim.Variant(strings.TrimSpace(name)))
		}
	}
	r, err := play(o, variants, *seeds)
	if err != nil {
		return err
	}
	if err := sim.Print(out, r.Summary); err != nil || *file == "" {
		return err
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(*file, append(data, '\n'), 0o644)
}

// play runs each trace with each variant.
func play(o sim.Options, variants []sim.Variant, seeds int) (report, error) {
	r := report{Options: o, Seeds: seeds}
	if seeds < 1 {
		return r, errors.New("-seeds: at least one")
	}
	for _, v := range variants {
		var results []sim.Result
		for seed := range uint64(seeds) {
			o.Seed = seed + 1
			trace, err := sim.Generate(o)
			if err != nil {
				return r, err
			}
			result, err := sim.Run(trace, v)
			if err != nil {
				return r, fmt.Errorf("%s, seed %d: %w", v, o.Seed, err)
			}
			results = append(results, result)
		}
		r.Summary = append(r.Summary, sim.Summarize(results))
		r.Results = append(r.Results, results...)
	}
	return r, nil
}
