package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLVMName(t *testing.T) {
	for path, want := range map[string]string{
		"/dev/mapper/vg--ssd-pvc--database": "vg-ssd/pvc-database",
		"/dev/mapper/vg-lv":                 "vg/lv",
		"/dev/mapper/a----b-c":              "a--b/c",
		"/dev/loop0":                        "/dev/loop0",
	} {
		if got := lvmName(path); got != want {
			t.Errorf("lvmName(%q) = %q, want %q", path, got, want)
		}
	}
}

func TestLifeTags_KeepsOnlyWhatTellsTheLife(t *testing.T) {
	got := lifeTags("csi-local/state=used,csi-local/name=pvc-1,other/state=x,csi-local/fs=ext4")
	if want := "fs=ext4 state=used"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestChangesSince(t *testing.T) {
	before := picture{volumes: map[string]string{"a": "a 1", "b": "b 1", "d": "d 1"}}
	after := picture{
		volumes: map[string]string{"a": "a 1", "b": "b 2", "c": "c 1"},
		mounts:  map[string]string{"/x": "x"},
	}
	want := []change{
		{"lvs", removed, "d 1"}, {"lvs", changed, "b 2"}, {"lvs", added, "c 1"},
		{"mount", added, "x"},
	}
	if diff := cmp.Diff(want, after.changesSince(before), cmp.AllowUnexported(change{})); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestFold_LosesNoWordAndKeepsTheLimit(t *testing.T) {
	text := "one two three four averyveryverylongword five"
	lines := fold(text, 10)
	if diff := cmp.Diff(strings.Fields(text), strings.Fields(strings.Join(lines, " "))); diff != "" {
		t.Errorf("words (-want +got):\n%s", diff)
	}
	for _, line := range lines {
		if len(line) > 10 && strings.Contains(line, " ") {
			t.Errorf("line %q is longer than 10 and could have been folded", line)
		}
	}
}

func TestPrinter_TakesProgressBack(t *testing.T) {
	var out strings.Builder
	p := newPrinter(&out, true)
	p.write("working", true)
	p.line("done")
	p.line("next")
	if got, want := out.String(), "working"+clearLine+"done\nnext\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPrinter_DuringReturnsTheError(t *testing.T) {
	want := errors.New("broken")
	if got := newPrinter(&strings.Builder{}, false).during("x", func() error { return want }); !errors.Is(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		41 * time.Millisecond: "41 ms", 1540 * time.Millisecond: "1.5 s", 95 * time.Second: "1 min 35 s",
	} {
		if got := duration(d); got != want {
			t.Errorf("duration(%v) = %q, want %q", d, got, want)
		}
	}
}
