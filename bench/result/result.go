// Package result writes what a benchmark measured to bench/results/NAME.json
// and prints it as a table.
package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
)

// Result is one figure of a benchmark.
type Result struct {
	Metric string  `json:"metric"`
	Value  float64 `json:"value"`
	// Unit is "ratio", "count", "MiB", "s" and the like.
	Unit string `json:"unit"`
	// Goal is what the figure is held to, "<= 0.3" for example; empty for
	// figures that are only reported.
	Goal string `json:"goal"`
	// OK tells whether the goal is met; true where there is none.
	OK bool `json:"ok"`
}

// Set collects the figures of one benchmark, in the order they come. Its
// methods are not safe for concurrent use.
type Set struct{ results []Result }

// AtMost adds a figure that must not be above goal.
func (s *Set) AtMost(metric string, value float64, unit string, goal float64) {
	s.results = append(s.results, Result{metric, value, unit, fmt.Sprintf("<= %g", goal), value <= goal})
}

// AtLeast adds a figure that must not be below goal.
func (s *Set) AtLeast(metric string, value float64, unit string, goal float64) {
	s.results = append(s.results, Result{metric, value, unit, fmt.Sprintf(">= %g", goal), value >= goal})
}

// Report adds a figure that has no goal.
func (s *Set) Report(metric string, value float64, unit string) {
	s.results = append(s.results, Result{metric, value, unit, "", true})
}

// Include adds the figures of a file that [Set.Write] has written.
func (s *Set) Include(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var results []Result
	if err := json.Unmarshal(data, &results); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	s.results = append(s.results, results...)
	return nil
}

// ErrGoalMissed is returned by [Set.Err] if a figure misses its goal.
var ErrGoalMissed = errors.New("goal missed")

// Err names every figure that misses its goal, or is nil.
func (s *Set) Err() error {
	var errs []error
	for _, r := range s.results {
		if !r.OK {
			errs = append(errs, fmt.Errorf("%w: %s is %.4g %s, wanted %s", ErrGoalMissed, r.Metric, r.Value, r.Unit, r.Goal))
		}
	}
	return errors.Join(errs...)
}

// Print writes the figures as a table.
func (s *Set) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "METRIC\tVALUE\tUNIT\tGOAL\tOK")
	for _, r := range s.results {
		ok := "yes"
		if !r.OK {
			ok = "NO"
		}
		fmt.Fprintf(t, "%s\t%.4g\t%s\t%s\t%s\n", r.Metric, r.Value, r.Unit, r.Goal, ok)
	}
	return t.Flush()
}

// Write replaces folder/name.json in one step, so that a reader never sees half of it.
func (s *Set) Write(folder, name string) error {
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false) // goals read "<= 0.3"
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(s.results); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	temporary := filepath.Join(folder, name+".json.tmp")
	if err := os.WriteFile(temporary, data.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(folder, name+".json"))
}
