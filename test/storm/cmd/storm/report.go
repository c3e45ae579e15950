package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/csi-local/csi-local/bench/result"
	"github.com/csi-local/csi-local/test/storm"
)

// The goals: of time, against the same pods without volumes, and of pods per
// second without volumes, against kube-scheduler.
const (
	timeGoal       = 1.15
	throughputGoal = 0.98
)

func reportCommand(flags *flag.FlagSet, records *string, stdout io.Writer) func() error {
	resultDir := flags.String("results", "bench/results", "folder for storm.json")
	docs := flags.String("docs", "docs", "folder with storm.md, whose table is replaced, and for storm.svg")
	return func() error {
		r, err := load(*records)
		if err != nil {
			return err
		}
		var set result.Set
		r.measure(&set)
		if err := set.Print(stdout); err != nil {
			return err
		}
		if err := set.Write(*resultDir, "storm"); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(*docs, "storm.svg"), r.plot(), 0o644); err != nil {
			return err
		}
		if err := replaceTable(filepath.Join(*docs, "storm.md"), r.table()); err != nil {
			return err
		}
		return set.Err()
	}
}

// measure adds every figure that the records have.
func (r results) measure(set *result.Set) {
	for _, s := range r.settings() {
		if s.withoutVolumes {
			continue
		}
		f, name := r.storms[s], metricName(s)
		if s.tracking == storm.Local {
			set.AtMost(name+"_failed_creates", float64(f.sum(func(r storm.Record) int { return r.FailedCreates })), "count", 0)
			set.AtMost(name+"_stuck_that_fit", float64(f.sum(func(r storm.Record) int { return r.StuckThatFit })), "count", 0)
			set.AtMost(name+"_misplaced", float64(f.sum(func(r storm.Record) int { return r.Misplaced })), "count", 0)
		} else {
			set.Report(name+"_failed_creates", f.failedCreates().median, "count")
		}
		if s.turns > 0 {
			set.Report(name+"_takeovers", f.spread(func(r storm.Record) float64 { return float64(r.Takeovers) }).median, "count")
		}
		set.Report(name+"_seconds", f.seconds().median, "s")
		ratio, known := r.timeRatio(s)
		switch {
		case !known:
			set.Report(name+"_unbound", f.unbound().median, "count")
		case s.tracking == storm.Local && s.fill == full && s.turns == 0:
			set.AtMost(name+"_time_ratio", ratio.median, "ratio", timeGoal)
		default:
			set.Report(name+"_time_ratio", ratio.median, "ratio")
		}
	}
	if r.throughput != nil {
		t := r.throughput
		set.AtLeast("throughput_ratio_no_volumes", pairs(t.Local, t.Stock).median, "ratio", throughputGoal)
		set.Report("throughput_local_pods_per_second", spreadOf(t.Local).median, "1/s")
		set.Report("throughput_stock_pods_per_second", spreadOf(t.Stock).median, "1/s")
		set.Report("throughput_cpu_ratio_no_volumes", pairs(t.LocalCPU, t.StockCPU).median, "ratio")
	}
}

// metricName says all that is not usual; the rate at which pods come is in the table.
func metricName(s setting) string {
	name := "storm"
	if s.tracking != storm.Local {
		name += "_" + string(s.tracking)
	}
	name += fmt.Sprintf("_%dx%d", s.nodes, s.pods)
	if s.fill != full {
		name += fmt.Sprintf("_fill%d", s.fill)
	}
	if s.turns > 0 {
		name += "_failover"
	}
	return name
}

// The table stands between these lines.
const (
	tableBegin = "<!-- figures -->\n"
	tableEnd   = "<!-- end of figures -->\n"
)

func replaceTable(path string, table []byte) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := bytes.Cut(text, []byte(tableBegin))
	_, after, foundToo := bytes.Cut(rest, []byte(tableEnd))
	if !found || !foundToo {
		return errors.New(path + " lacks the lines between which the table belongs")
	}
	return os.WriteFile(path, bytes.Join([][]byte{before, []byte(tableBegin), table, []byte(tableEnd), after}, nil), 0o644)
}

// table is in Markdown.
func (r results) table() []byte {
	var b bytes.Buffer
	b.WriteString("\n| nodes × pods | pods/s | demand / capacity | capacity known to | seeds | failed creates | pods without a node | seconds | time ratio |\n" +
		"|---|---|---|---|---|---|---|---|---|\n")
	for _, s := range r.settings() {
		f := r.storms[s]
		ratio := "–"
		if known, ok := r.timeRatio(s); ok && !s.withoutVolumes {
			ratio = known.text(2)
		}
		demand := fmt.Sprintf("%d %%", s.fill)
		if s.withoutVolumes {
			demand = "–"
		}
		fmt.Fprintf(&b, "| %d × %d | %s | %s | %s | %d | %s | %s | %s | %s |\n", s.nodes, s.pods, rateText(s.rate), demand, s.who(), len(f),
			f.failedCreates().text(0), f.unbound().text(0), f.seconds().text(0), ratio)
	}
	if r.throughput != nil {
		t := r.throughput
		fmt.Fprintf(&b, "\nPods without volumes, %d nodes, %d rounds of %d pods: csi-local-scheduler %s pods/s, kube-scheduler %s; ratio of pairs %s.\n"+
			"Processor time of the schedulers, start included: ratio of pairs %s.\n", t.Nodes, len(t.Local), t.Pods, spreadOf(t.Local).text(0),
			spreadOf(t.Stock).text(0), pairs(t.Local, t.Stock).text(3), pairs(t.LocalCPU, t.StockCPU).text(3))
	}
	b.WriteString("\n")
	return b.Bytes()
}

func rateText(rate float64) string {
	if rate == 0 {
		return "all at once"
	}
	return fmt.Sprintf("%g", rate)
}

// who knows of capacity, for people.
func (s setting) who() string {
	switch {
	case s.withoutVolumes:
		return "(no volumes)"
	case s.turns > 0:
		return fmt.Sprintf("LocalCapacity, scheduler killed %d times", s.turns)
	case s.tracking == storm.InTree:
		return "in-tree tracking"
	case s.tracking == storm.None:
		return "nobody"
	default:
		return "LocalCapacity"
	}
}

// text is the median, and the range if there is one.
func (s spread) text(decimals int) string {
	if s.least == s.most {
		return fmt.Sprintf("%.*f", decimals, s.median)
	}
	return fmt.Sprintf("%.*f (%.*f–%.*f)", decimals, s.median, decimals, s.least, decimals, s.most)
}
