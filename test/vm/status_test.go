package vm

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestReport_Read(t *testing.T) {
	for _, tc := range []struct {
		name, lines string
		want        report
		bad         int // lines that are errors
	}{
		{"nothing", "", report{}, 0},
		{"a whole run", startLine() + exitLine(7), report{started: true, exited: true, status: 7}, 0},
		{"largest status", exitLine(255), report{exited: true, status: 255}, 0},
		{"set-up failed, with odd characters", setupLine(errors.New("a \"b\"\nc\x00é")), report{setup: "a \"b\"\nc\x00é"}, 0},
		{"no number", "exit\nexit x\nexit 256\nexit -1\nexit 1 2\n", report{}, 5},
		{"no quotes", "setup text\n", report{}, 1},
		{"unknown", "hello\n", report{}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got report
			bad := 0
			for line := range strings.Lines(tc.lines) {
				if err := got.read(strings.TrimSuffix(line, "\n")); err != nil {
					bad++
				}
			}
			if got != tc.want || bad != tc.bad {
				t.Errorf("read %+v with %d bad lines, want %+v with %d", got, bad, tc.want, tc.bad)
			}
		})
	}
}

func TestReport_ReadAll(t *testing.T) {
	c, started := newConsole(nil, nil), false
	var r report
	r.readAll(strings.NewReader("start\r\nnonsense\r\nexit 3\r\n"), c, func() { started = true })
	if want := (report{started: true, exited: true, status: 3}); r != want || !started {
		t.Errorf("report %+v, want %+v", r, want)
	}
	if tail := strings.Join(c.tail(), "\n"); !strings.Contains(tail, `unknown report "nonsense"`) {
		t.Errorf("the console does not tell of the bad line: %s", tail)
	}
}

func TestExitStatus(t *testing.T) {
	for _, tc := range []struct {
		status int
		err    error
		want   int
	}{
		{0, nil, 0}, {42, nil, 42},
		{0, fmt.Errorf("%w: 5s", ErrTimeLimit), 124},
		{0, fmt.Errorf("x: %w", ErrPowerCut), 137},
		{0, &DiedError{}, 125}, {3, errors.New("left behind"), 125},
	} {
		if got := ExitStatus(tc.status, tc.err); got != tc.want {
			t.Errorf("ExitStatus(%d, %v) = %d, want %d", tc.status, tc.err, got, tc.want)
		}
	}
}
