package result

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSet(t *testing.T) {
	var s Set
	s.AtMost("low", 0.3, "ratio", 0.3)
	s.AtLeast("high", 2, "ratio", 2)
	s.Report("plain", 7, "MiB")
	if err := s.Err(); err != nil {
		t.Fatalf("goals are met, got %v", err)
	}
	s.AtMost("too_high", 0.31, "ratio", 0.3)
	s.AtLeast("too_low", 1.9, "ratio", 2)
	err := s.Err()
	if !errors.Is(err, ErrGoalMissed) || !strings.Contains(err.Error(), "too_high") || !strings.Contains(err.Error(), "too_low") {
		t.Errorf("Err() = %v, want both missed goals", err)
	}
	if strings.Contains(err.Error(), "plain") {
		t.Errorf("Err() = %v names a figure without a goal", err)
	}

	folder := t.TempDir()
	if err := s.Write(folder, "bench"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(folder, "bench.json"))
	if err != nil {
		t.Fatal(err)
	}
	const first = `[
  {
    "metric": "low",
    "value": 0.3,
    "unit": "ratio",
    "goal": "<= 0.3",
    "ok": true
  },`
	if !strings.HasPrefix(string(data), first) {
		t.Errorf("file begins %q, want %q", data[:min(len(data), len(first))], first)
	}
	var again Set
	if err := again.Include(filepath.Join(folder, "bench.json")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.results, again.results); diff != "" {
		t.Errorf("read again (-want +got)\n%s", diff)
	}
	left, err := filepath.Glob(filepath.Join(folder, "*.tmp"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
