package screen

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFold_LosesNoWordAndKeepsTheLimit(t *testing.T) {
	text := "one two three four averyveryverylongword five"
	lines := Fold(text, 10)
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
	p := New(&out, true)
	p.write("working", true)
	p.Line("done")
	p.Line("next")
	if got, want := out.String(), "working"+clearLine+"done\nnext\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPrinter_DuringReturnsTheError(t *testing.T) {
	want := errors.New("broken")
	if got := New(&strings.Builder{}, false).During("x", func() error { return want }); !errors.Is(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		41 * time.Millisecond: "41 ms", 1540 * time.Millisecond: "1.5 s", 95 * time.Second: "1 min 35 s",
	} {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%v) = %q, want %q", d, got, want)
		}
	}
}
