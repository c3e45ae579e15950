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
		{"a whole run", bootLine() + startLine() + exitLine(7), report{boots: 1, started: true, exited: true, status: 7}, 0},
		{"largest status", exitLine(255), report{exited: true, status: 255}, 0},
		{"set-up failed, with odd characters", setupLine(errors.New("a \"b\"\nc\x00é")), report{setup: "a \"b\"\nc\x00é"}, 0},
		{"two boots", bootLine() + startLine() + bootLine(), report{boots: 2, started: true}, 0},
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
	c, reboots := newConsole(nil), 0
	var r report
	r.readAll(strings.NewReader("boot\r\nstart\r\nboot\r\nnonsense\r\n"), c, func() { reboots++ })
	if r.boots != 2 || !r.started || reboots == 0 {
		t.Errorf("report %+v, %d reboots", r, reboots)
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
