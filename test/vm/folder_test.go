package vm

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestSweepFolders(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	live, err := newFolder()
	if err != nil {
		t.Fatal(err)
	}
	defer live.remove()
	// What a killed maker leaves: no lock, and orders that are a while old.
	dead, young := filepath.Join(os.TempDir(), "vm-dead"), filepath.Join(os.TempDir(), "vm-young")
	others := filepath.Join(os.TempDir(), "vm-of-something-else")
	for _, dir := range []string{dead, young, others} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-2 * sweepAge)
	for _, dir := range []string{live.path, dead, young} {
		if err := (&spec{}).write(dir); err != nil {
			t.Fatal(err)
		}
		if dir != young {
			if err := os.Chtimes(filepath.Join(dir, specName), old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	next, err := newFolder()
	if err != nil {
		t.Fatal(err)
	}
	next.remove()
	for dir, kept := range map[string]bool{live.path: true, dead: false, young: true, others: true, next.path: false} {
		if _, err := os.Stat(dir); (err == nil) != kept {
			t.Errorf("%s kept: %v, want %v", dir, err == nil, kept)
		}
	}
}
