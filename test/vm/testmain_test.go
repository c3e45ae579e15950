package vm

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestTestArgs(t *testing.T) {
	overrides := []string{"-test.testlogfile="}
	for _, tc := range []struct {
		name     string
		args     []string
		nonFlags int
		want     []string
	}{
		{"none", nil, 0, []string{"-test.testlogfile="}},
		{"flags only", []string{"-test.v", "-test.run", "X"}, 0, []string{"-test.v", "-test.run", "X", "-test.testlogfile="}},
		{"with arguments", []string{"-test.v", "a", "-b"}, 2, []string{"-test.v", "-test.testlogfile=", "a", "-b"}},
		{"with a terminator", []string{"-test.v", "--", "-b"}, 1, []string{"-test.v", "-test.testlogfile=", "--", "-b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := testArgs(tc.args, tc.nonFlags, overrides); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestTestResults_Collect(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"profile": "p", "folder/a": "1", "folder/sub/b": "2"} {
		path := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := &testResults{dir: from, moves: []move{
		{filepath.Join(from, "profile"), filepath.Join(to, "c.out")},
		{filepath.Join(from, "folder"), filepath.Join(to, "new")},
		{filepath.Join(from, "never-written"), filepath.Join(to, "x")},
	}}
	if err := r.collect(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"c.out": "p", "new/a": "1", "new/sub/b": "2"} {
		if got, err := os.ReadFile(filepath.Join(to, name)); string(got) != want {
			t.Errorf("%s holds %q, %v; want %q", name, got, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(to, "x")); err == nil {
		t.Error("made a file that was never written")
	}
	r.moves = []move{{filepath.Join(from, "profile"), filepath.Join(to, "absent/c.out")}}
	if err := r.collect(); err == nil {
		t.Error("a file that cannot be written is no error")
	}
}
