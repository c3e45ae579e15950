package guest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// serving serves a folder until the test ends.
func serving(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, folder) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return folder
}

func TestCall_StatusOutputAndInput(t *testing.T) {
	folder := serving(t)
	for _, tc := range []struct {
		name  string
		input string
		args  []string
		want  Result
	}{
		{"all of it", "in", []string{"sh", "-c", "cat; echo out; echo err >&2; exit 3"}, Result{Status: 3, Stdout: []byte("inout\n"), Stderr: []byte("err\n")}},
		{"nothing printed", "", []string{"true"}, Result{Stdout: []byte{}, Stderr: []byte{}}},
		{"killed", "", []string{"sh", "-c", "kill -9 $$"}, Result{Status: 137, Stdout: []byte{}, Stderr: []byte{}}},
		{"odd arguments", "", []string{"printf", "%s", "a\n'\"$(b) é"}, Result{Stdout: []byte("a\n'\"$(b) é"), Stderr: []byte{}}},
		{"no such program", "", []string{"/no/such"}, Result{Status: 127, Stdout: []byte{}, Stderr: []byte("fork/exec /no/such: no such file or directory\n")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Call(t.Context(), folder, "word-"+tc.name, []byte(tc.input), tc.args...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

// Whoever does not wait any more wants the command to end, with all it has started.
func TestCall_EndsWithItsContext(t *testing.T) {
	folder, mark := serving(t), filepath.Join(t.TempDir(), "mark")
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := Call(ctx, folder, "long", nil, "sh", "-c", `(trap "" TERM; while :; do date +%N >"$0"; sleep 0.01; done) & wait`, mark)
		result <- err
	}()
	waitFor(t, "the command's first sign of life", func() bool { _, err := os.Stat(mark); return err == nil })
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	waitFor(t, "the command's end", func() bool { _, err := os.Stat(filepath.Join(folder, "long"+doneSuffix)); return err == nil })
	if err := os.Remove(mark); err != nil {
		t.Fatal(err)
	}
	timer := time.NewTimer(200 * time.Millisecond)
	<-timer.C
	if _, err := os.Stat(mark); err == nil {
		t.Error("what the command has started still runs")
	}
}

func waitFor(t *testing.T, what string, there func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !there() {
		select {
		case <-deadline.C:
			t.Fatalf("no %s", what)
		case <-tick.C:
		}
	}
}
