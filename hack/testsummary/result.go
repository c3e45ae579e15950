package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"time"
)

// slowestShown is how many packages the total lists.
const slowestShown = 8

// result is what one part of a run came to.
type result struct {
	Label    string          `json:"label"`
	Seconds  float64         `json:"seconds"`
	Passed   int             `json:"passed"`
	Failed   int             `json:"failed"`
	Skips    []skip          `json:"skips,omitempty"`
	Packages []packageResult `json:"packages,omitempty"`
}

// skip is a test that did not run.
type skip struct {
	Package string `json:"package"`
	Test    string `json:"test"`
	// Reason is what the test said; empty if it said nothing, which is a failure.
	Reason string `json:"reason"`
}

type packageResult struct {
	Package string  `json:"package"`
	Seconds float64 `json:"seconds"`
}

func (r result) words() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", r.Passed, r.Failed, len(r.Skips))
}

// verdict is an error if a test failed or was skipped without a reason.
func (r result) verdict() error {
	var problems []error
	if r.Failed > 0 {
		problems = append(problems, fmt.Errorf("%s: %d failed", r.Label, r.Failed))
	}
	for _, s := range r.Skips {
		if s.Reason == "" {
			problems = append(problems, fmt.Errorf("%s: %s %s was skipped without a reason", r.Label, s.Package, s.Test))
		}
	}
	return errors.Join(problems...)
}

func (r result) save(dir string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, r.Label+".json"), append(data, '\n'), 0o644)
}

// load reads the results of all parts of a run, in the order they were written.
func load(dir string) ([]result, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	type part struct {
		result
		written time.Time
	}
	var parts []part
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		p := part{written: info.ModTime()}
		if err := json.Unmarshal(data, &p.result); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		parts = append(parts, p)
	}
	sort.SliceStable(parts, func(i, j int) bool { return parts[i].written.Before(parts[j].written) })
	results := make([]result, len(parts))
	for i, p := range parts {
		results[i] = p.result
	}
	return results, nil
}

// printTotal writes the end of a run; its last line is the count and nothing else.
func printTotal(dir string, out io.Writer) error {
	parts, err := load(dir)
	if err != nil {
		return err
	}
	total := result{Label: "total"}
	fmt.Fprintln(out, "== summary")
	for _, p := range parts {
		fmt.Fprintf(out, "   %-22s %8s   %s\n", p.Label, seconds(p.Seconds), p.words())
		total.Passed += p.Passed
		total.Failed += p.Failed
		total.Skips = append(total.Skips, p.Skips...)
		total.Packages = append(total.Packages, p.Packages...)
	}
	printSlowest(total.Packages, out)
	for _, s := range total.Skips {
		reason := s.Reason
		if reason == "" {
			reason = "NO REASON GIVEN"
		}
		fmt.Fprintf(out, "   skipped: %s %s: %s\n", short(s.Package), s.Test, reason)
	}
	fmt.Fprintln(out, total.words())
	if total.Passed == 0 && total.Failed == 0 {
		return fmt.Errorf("no test ran (%s holds no result)", dir)
	}
	return total.verdict()
}

func printSlowest(packages []packageResult, out io.Writer) {
	sort.SliceStable(packages, func(i, j int) bool { return packages[i].Seconds > packages[j].Seconds })
	for i, p := range packages {
		if i == slowestShown || p.Seconds < 1 {
			return
		}
		if i == 0 {
			fmt.Fprintln(out, "   slowest packages:")
		}
		fmt.Fprintf(out, "   %8s  %s\n", seconds(p.Seconds), short(p.Package))
	}
}

func seconds(s float64) string {
	if s >= 60 {
		return time.Duration(s * float64(time.Second)).Round(time.Second).String()
	}
	return fmt.Sprintf("%.1fs", s)
}
