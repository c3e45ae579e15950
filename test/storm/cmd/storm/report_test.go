package main

import (
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csi-local/csi-local/bench/result"
	"github.com/csi-local/csi-local/test/storm"
)

func record(tracking storm.Tracking, seed uint64, seconds float64, failed int) storm.Record {
	return storm.Record{Name: string(tracking) + string(rune('0'+seed)), Tracking: tracking, Nodes: 100, PodsPerNode: 100, FillPercent: full, Seed: seed,
		PodsPerSecond: 20, Pods: 10000, Bound: 10000, Volumes: 10000, Seconds: seconds, FailedCreates: failed}
}

// write fills a folder with records of a good run.
func write(t *testing.T, change func(*storm.Record)) string {
	t.Helper()
	folder := t.TempDir()
	without, stuck := record(storm.Local, 1, 500, 0), record(storm.None, 1, 700, 9000)
	without.WithoutVolumes, without.Name = true, "without"
	stuck.Bound = 9990
	local := record(storm.Local, 2, 510, 0)
	change(&local)
	for _, r := range []storm.Record{record(storm.Local, 1, 505, 0), local, record(storm.Local, 3, 550, 0), without,
		record(storm.InTree, 1, 800, 600), record(storm.InTree, 2, 900, 580), stuck} {
		if err := storm.WriteRecord(folder, r.Name, r); err != nil {
			t.Fatal(err)
		}
	}
	throughput := storm.ThroughputRecord{Nodes: 100, Pods: 2000, Local: []float64{99, 300, 101}, Stock: []float64{100, 100, 100},
		LocalCPU: []float64{4, 6, 5}, StockCPU: []float64{5, 5, 5}}
	if err := storm.WriteRecord(folder, throughputName, throughput); err != nil {
		t.Fatal(err)
	}
	return folder
}

func report(t *testing.T, records string) (docs, results string, err error) {
	t.Helper()
	docs, results = t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(docs, "storm.md"), []byte("before\n"+tableBegin+"old\n"+tableEnd+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err = run(t.Context(), []string{"report", "-records", records, "-docs", docs, "-results", results}, io.Discard, io.Discard)
	return docs, results, err
}

func content(t *testing.T, folder, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestReport(t *testing.T) {
	docs, results, err := report(t, write(t, func(*storm.Record) {}))
	if err != nil {
		t.Fatal(err)
	}
	figures := content(t, results, "storm.json")
	for _, want := range []string{
		`"storm_100x100_failed_creates",
    "value": 0,`, `"storm_100x100_time_ratio",
    "value": 1.02,`, `"storm_intree_100x100_failed_creates",
    "value": 590,`, `"storm_none_100x100_failed_creates",
    "value": 9000,`, `"storm_none_100x100_unbound",
    "value": 10,`, `"throughput_ratio_no_volumes",
    "value": 1.01,`, `"throughput_cpu_ratio_no_volumes",
    "value": 1,`,
	} {
		if !strings.Contains(figures, want) {
			t.Errorf("storm.json lacks %s:\n%s", want, figures)
		}
	}
	page := content(t, docs, "storm.md")
	for _, want := range []string{"before\n", "after\n", "| LocalCapacity | 3 | 0 | 0 | 510 (505–550) | 1.02 (1.01–1.10) |", "| in-tree tracking | 2 | 590 (580–600) |"} {
		if !strings.Contains(page, want) {
			t.Errorf("storm.md lacks %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "old") {
		t.Error("storm.md still has the old table")
	}
	plot := content(t, docs, "storm.svg")
	if err := xml.Unmarshal([]byte(plot), new(struct{})); err != nil {
		t.Errorf("storm.svg: %v", err)
	}
	for _, want := range []string{"590 (580–600)", "10 pods never bound"} {
		if !strings.Contains(plot, want) {
			t.Errorf("storm.svg lacks %q", want)
		}
	}
}

// A missed goal fails the command, and a record must not be counted by halves.
func TestReport_Fails(t *testing.T) {
	for name, change := range map[string]func(*storm.Record){
		"failed create": func(r *storm.Record) { r.FailedCreates = 1 },
		"stuck":         func(r *storm.Record) { r.StuckThatFit = 1 },
		"misplaced":     func(r *storm.Record) { r.Misplaced = 1 },
	} {
		if _, _, err := report(t, write(t, change)); !errors.Is(err, result.ErrGoalMissed) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, _, err := report(t, t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no records: error %v", err)
	}
	mixed := func(r *storm.Record) { r.PodsPerSecond = 7 }
	if _, _, err := report(t, write(t, mixed)); err == nil || !strings.Contains(err.Error(), "one metric") {
		t.Errorf("two rates: error %v", err)
	}
	broken := write(t, func(*storm.Record) {})
	if err := os.WriteFile(filepath.Join(broken, "broken.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := report(t, broken); err == nil || !strings.Contains(err.Error(), "broken.json") {
		t.Errorf("half a record: error %v", err)
	}
}
