package vm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestConsole_KeepsLastLines(t *testing.T) {
	var copied bytes.Buffer
	c := newConsole(&copied, nil)
	input := "epollctl add err fd 3, Operation not permitted\r\n" + strings.Repeat("line\n", 100) +
		" [<60045fda>] ? left over\n [<60045fdb>] called\nlast\nno newline"
	// Byte by byte: lines come in any pieces.
	for i := range input {
		if _, err := c.Write([]byte(input[i : i+1])); err != nil {
			t.Fatal(err)
		}
	}
	tail := c.tail()
	if want := []string{"line", " [<60045fdb>] called", "last", "no newline"}; !slices.Equal(tail[len(tail)-4:], want) {
		t.Errorf("tail ends with %q, want %q", tail[len(tail)-4:], want)
	}
	if len(tail) != tailLines+1 {
		t.Errorf("tail has %d lines", len(tail))
	}
	if copied.String() != input {
		t.Error("the copy is not what was written")
	}
}

func TestConsole_BoundsLongLines(t *testing.T) {
	c := newConsole(nil, nil)
	if _, err := c.Write(bytes.Repeat([]byte("x"), 10*maxLineBytes)); err != nil {
		t.Fatal(err)
	}
	for _, line := range c.tail() {
		if len(line) > maxLineBytes {
			t.Errorf("a line of %d bytes is kept", len(line))
		}
	}
}

func TestConsole_TellsOfReboot(t *testing.T) {
	for line, want := range map[string]int{
		"reboot: Restarting system": 1, "sysrq: Resetting": 1, "reboot: System halted": 0, "reboot: Power down": 0, "sysrq: Trigger a crash": 0,
	} {
		got := 0
		c := newConsole(nil, func() { got++ })
		if _, err := io.WriteString(c, line+"\r\n"); err != nil || got != want {
			t.Errorf("%q: %d reboots, %v", line, got, err)
		}
	}
}

const mdPanic = "Kernel panic - not syncing: Segfault with no mm\nCPU: 0 PID: 321 Comm: mdX_resync Not tainted 6.1.0\nStack:\n"

const glitchText = "runtime: epollwait on fd 4 failed with 38"

func TestGlitch(t *testing.T) {
	for _, tc := range []struct {
		name    string
		writes  []string
		console string
		seen    bool
	}{
		{name: "whole", writes: []string{"text\n" + glitchText + "\nfatal error"}, seen: true},
		{name: "in pieces", writes: []string{"text runtime: epollw", "ait on fd 17 fail", "ed with 38\n"}, seen: true},
		{name: "after much else", writes: []string{strings.Repeat("x", 100000), glitchText}, seen: true},
		{name: "then much else", writes: []string{glitchText, strings.Repeat("x", 100000)}, seen: true},
		{name: "in init", console: "init: " + glitchText + "\nKernel panic - not syncing\n", seen: true},
		{name: "in md's thread", console: mdPanic, seen: true},
		{name: "in md's function", console: "Kernel panic - not syncing: Segfault with no mm\n [<60a>] md_thread+0x1d/0x120\n", seen: true},
		{name: "in another thread", console: strings.ReplaceAll(mdPanic, "mdX_resync", "kworker/0:1")},
		{name: "another panic of md's", console: strings.ReplaceAll(mdPanic, "Segfault with no mm", "sysrq triggered crash")},
		{name: "another error", writes: []string{"runtime: epollwait on fd 4 failed with 9"}},
		{name: "silence"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, watch := newConsole(nil, nil), &glitchWatch{}
			_, _ = io.WriteString(c, tc.console)
			for _, text := range tc.writes {
				if n, err := io.WriteString(watch, text); n != len(text) || err != nil {
					t.Fatalf("wrote %d, %v", n, err)
				}
			}
			if line := glitchSeen(c, []*glitchWatch{watch}); (line != "") != tc.seen {
				t.Errorf("seen %q, want %v", line, tc.seen)
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	killed := errors.New("signal: killed")
	cut, cancel := context.WithCancelCause(t.Context())
	cancel(ErrPowerCut)
	rebooted, cancel := context.WithCancelCause(t.Context())
	cancel(errRebooted)
	stuck, cancel := context.WithCancelCause(t.Context())
	cancel(errStuck)
	for _, tc := range []struct {
		name    string
		ctx     context.Context
		options Options
		report  report
		console string
		glitch  string
		status  int
		message string // part of the error's
	}{
		{name: "an exit status", report: report{started: true, exited: true, status: 9}, status: 9},
		{name: "the power was cut", ctx: cut, report: report{started: true}, message: "the power was cut"},
		{name: "the power was cut after the end", ctx: cut, report: report{exited: true, status: 4}, status: 4},
		{name: "rebooted", ctx: rebooted, report: report{started: true}, message: "was rebooted by the command"},
		{name: "stuck", ctx: stuck, message: "did not get as far as the command in 3m0s"},
		{name: "set-up failed", report: report{setup: "mount hostfs: no"}, console: "why\n", message: "mount hostfs: no; the last"},
		{name: "panic", report: report{started: true}, console: "Kernel panic - not syncing: sysrq\nmore\n",
			message: "panicked while the command ran (Kernel panic - not syncing: sysrq); the last lines of its console:\n  Kernel panic"},
		{name: "panic in RAID 6", report: report{started: true}, console: "Kernel panic - x\n [<a>] f [async_pq]\n",
			message: "RAID 6 has to be asked for"},
		{name: "panic in RAID 6 that was asked for", options: Options{RAID6: true}, report: report{started: true},
			console: "Kernel panic - x\n [<a>] f [async_pq]\n", message: "(Kernel panic - x); the last"},
		{name: "out of memory", console: "Out of memory: Killed process 1 (init)\nKernel panic - not syncing: init\n",
			message: "ran out of memory and panicked before the command was started"},
		{name: "glitch", report: report{exited: true, status: 2}, glitch: glitchText, message: "run it again"},
		{name: "glitch that did no harm", report: report{exited: true}, glitch: glitchText},
		{name: "nothing was told", report: report{started: true}, message: "without telling the command's exit status (its console is empty)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newConsole(nil, nil)
			_, _ = io.WriteString(c, tc.console)
			if tc.ctx == nil {
				tc.ctx = t.Context()
			}
			tc.options.Log = io.Discard
			status, err := verdict(tc.ctx, tc.options, &tc.report, c, tc.glitch, nil)
			if status != tc.status || (err == nil) != (tc.message == "") {
				t.Fatalf("verdict %d, %v", status, err)
			}
			if err != nil && !strings.Contains(err.Error(), tc.message) {
				t.Errorf("error %q does not say %q", err, tc.message)
			}
		})
	}
	if _, err := verdict(t.Context(), Options{Log: io.Discard}, &report{}, newConsole(nil, nil), "", killed); err == nil ||
		!strings.Contains(err.Error(), "start the throwaway kernel: signal: killed") {
		t.Errorf("a kernel that cannot be started: %v", err)
	}
}
