package inspecttest

import (
	"os"
	"testing"
)

// Golden compares text with a file, or writes the file if update is set.
func Golden(t testing.TB, path, text string, update bool) {
	t.Helper()
	if update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // everybody may read it
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s differs (-update writes it). Got:\n%s\nWant:\n%s", path, text, want)
	}
}
