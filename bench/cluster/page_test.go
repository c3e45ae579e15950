package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csi-local/csi-local/bench/result"
)

func TestWritePage(t *testing.T) {
	folder := t.TempDir()
	page := filepath.Join(folder, "page.md")
	if err := os.WriteFile(page, []byte("before\n"+pageBegin+"old\n"+pageEnd+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var set result.Set
	set.AtMost("claim_bound_p50_seconds", 0.357, "s", 1.5)
	set.Report("kill_leaked_volumes", 0, "count")
	set.Report("image_mib", 1234.5, "MiB")
	if err := set.Write(folder, "cluster"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := writePage(filepath.Join(folder, "cluster.json"), page); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := "before\n" + pageBegin + "\n| | figure | goal |\n|---|---|---|\n" +
		"| claim Bound, after claim and pod were created; median | 0.357 s | <= 1.5 |\n| volumes left afterwards | 0 |  |\n" +
		"| image of the driver on a node's disk, with Debian, LVM and file system tools in it | 1234 MiB |  |\n\n" + pageEnd + "after\n"
	if string(text) != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	if err := os.WriteFile(page, []byte("no place"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writePage(filepath.Join(folder, "cluster.json"), page); err == nil || !strings.Contains(err.Error(), "no place") {
		t.Errorf("a page without a place: %v", err)
	}
}

// Every figure is spoken of, and nothing else is.
func TestWords(t *testing.T) {
	text, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	for metric := range words() {
		if !strings.Contains(string(text), `("`+metric+`"`) {
			t.Errorf("%s is not measured", metric)
		}
	}
	if measured := strings.Count(string(text), "set.AtMost(") + strings.Count(string(text), "set.AtLeast(") + strings.Count(string(text), "set.Report("); measured != len(words()) {
		t.Errorf("%d figures are measured, %d spoken of", measured, len(words()))
	}
}
