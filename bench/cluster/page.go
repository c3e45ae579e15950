package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/csi-local/csi-local/bench/result"
)

// The figures of the page are between these.
const (
	pageBegin = "<!-- figures -->\n"
	pageEnd   = "<!-- end of figures -->\n"
)

// words says in a row of the page what a metric is.
func words() map[string]string {
	return map[string]string{
		"claim_bound_p50_seconds":                "claim Bound, after claim and pod were created; median",
		"pod_running_p50_seconds":                "that pod Running; median",
		"pod_without_volume_running_p50_seconds": "a pod without a volume Running; median",
		"twenty_bound_seconds":                   "twenty pods with claims at once: the last claim Bound; median of the repeats",
		"twenty_running_seconds":                 "the last of those pods Running",
		"twenty_provisioning_failed":             "creations that failed meanwhile, in all repeats",
		"fourteen_for_ten_failed_creates":        "fourteen pods for exactly ten volumes: creations that failed, in all repeats",
		"storm_real_failed_creates":              "twenty pods whose volumes fill the pool: creations that failed",
		"kill_rounds":                            "programs killed while volumes were made and deleted",
		"kill_leaked_volumes":                    "volumes left afterwards",
		"image_mib":                              "image of the driver on a node's disk, with Debian, LVM and file system tools in it",
		"daemonset_rss_mib_idle":                 "resident memory of all processes of a node's pod, idle",
		"daemonset_cpu_millicores_idle":          "processor time of a node's pod, idle",
		"daemonset_rss_mib_load":                 "the most that its processes have had resident, after the twenty at once",
		"daemonset_cpu_millicores_load":          "processor time of a node's pod while these were made and deleted",
		"api_requests_per_node_hour_idle":        "requests of a node's pod to the API server, idle",
	}
}

// writePage puts the figures of a file that was written into the page.
func writePage(figures, page string) error {
	data, err := os.ReadFile(figures)
	if err != nil {
		return err
	}
	var results []result.Result
	if err := json.Unmarshal(data, &results); err != nil {
		return fmt.Errorf("%s: %w", figures, err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(text), pageBegin)
	_, after, ends := strings.Cut(rest, pageEnd)
	if !begins || !ends {
		return fmt.Errorf("%s has no place for figures between %q and %q", page, pageBegin, pageEnd)
	}
	return os.WriteFile(page, []byte(before+pageBegin+"\n"+rows(results)+"\n"+pageEnd+after), 0o644)
}

func rows(results []result.Result) string {
	var b strings.Builder
	b.WriteString("| | figure | goal |\n|---|---|---|\n")
	for _, r := range results {
		unit := r.Unit
		if unit == "count" {
			unit = ""
		}
		value := strconv.FormatFloat(r.Value, 'g', 3, 64)
		if r.Value >= 100 {
			value = strconv.FormatFloat(r.Value, 'f', 0, 64)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", words()[r.Metric], strings.TrimSpace(value+" "+unit), r.Goal)
	}
	return b.String()
}
