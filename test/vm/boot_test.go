package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// outcome is what a run left.
type outcome struct {
	status              int
	err                 error
	stdout, stderr, log string
}

// needUML says why the tests that boot a kernel cannot run in a race build; without the
// packages they fail.
func needUML(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("user-mode Linux cannot run a program with the race detector: run without -race as well")
	}
	if testing.Short() {
		t.Skip("boots a kernel, and -short was asked for")
	}
}

// runUML boots a kernel for one command, in a temporary folder that must be empty again
// afterwards.
func runUML(t *testing.T, o Options) outcome {
	t.Helper()
	needUML(t)
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	var stdout, stderr, log bytes.Buffer
	o.Backend, o.Stdout, o.Stderr, o.Log = UML, &stdout, &stderr, &log
	if o.Timeout == 0 {
		o.Timeout = 3 * time.Minute
	}
	m, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	status, err := m.Wait()
	checkNothingLeft(t, temporary)
	return outcome{status, err, stdout.String(), stderr.String(), log.String()}
}

// checkNothingLeft looks for files, and for processes that name the folder.
func checkNothingLeft(t *testing.T, temporary string) {
	t.Helper()
	if left, err := os.ReadDir(temporary); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range commands {
		if text, _ := os.ReadFile(path); bytes.Contains(text, []byte("uml_dir="+temporary)) {
			t.Errorf("a process of the kernel is left: %s", path)
		}
	}
}

func script(lines string) []string { return []string{"sh", "-euc", lines} }

func (r outcome) want(t *testing.T, status int, stdout, stderr string) {
	t.Helper()
	if r.err != nil || r.status != status || r.stdout != stdout || r.stderr != stderr {
		t.Errorf("status %d, %v\nstdout %q\nstderr %q\nwant %d, %q, %q", r.status, r.err, r.stdout, r.stderr, status, stdout, stderr)
	}
}

func TestBoot_StatusAndOutput(t *testing.T) {
	r := runUML(t, Options{Command: script(`echo out; echo err >&2; echo more; exit 42`)})
	r.want(t, 42, "out\nmore\n", "err\n")
	if want := "vm: backend uml: as asked\n"; r.log != want {
		t.Errorf("log %q, want %q", r.log, want)
	}
	runUML(t, Options{Command: script(`kill -TERM $$`)}).want(t, 128+15, "", "")
	r = runUML(t, Options{Command: []string{"no-such-command"}})
	if r.err != nil || r.status != 127 || !strings.Contains(r.stderr, "cannot run no-such-command") {
		t.Errorf("a command that does not exist: %+v", r)
	}
}

func TestBoot_PassesEverythingOn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a folder, 'odd'")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// Every byte there is, in both directions; the arguments but the long one.
	arguments := oddArguments[:len(oddArguments)-1]
	const lines = `
		pwd; hostname; date +%s; echo "$VM_BACKEND,$VM_DISKS,$VM_UDEV,$DM_DISABLE_UDEV,$ODD,$FROM_CALLER"
		printf '[%s]' "$@"
		printf '\n\000\001\r\n\t\177\200\377' >&2`
	t.Setenv("FROM_CALLER", "é")
	r := runUML(t, Options{
		Command: append(script(lines), append([]string{"sh"}, arguments...)...),
		Dir:     dir, Env: []string{"ODD=a=b"}, Disks: manyDisks(2),
	})
	head, rest, _ := strings.Cut(r.stdout, "[")
	fields := strings.Split(head, "\n")
	if r.err != nil || r.status != 0 || len(fields) != 5 {
		t.Fatalf("%+v", r)
	}
	if seconds, err := strconv.ParseInt(fields[2], 10, 64); err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 10*time.Second {
		t.Errorf("the clock inside shows %s", fields[2])
	}
	fields[2] = ""
	if want := []string{dir, "vm", "", "uml,/dev/ubdb /dev/ubdc,0,1,a=b,é", ""}; fmt.Sprint(fields) != fmt.Sprint(want) {
		t.Errorf("told %q, want %q", fields, want)
	}
	if want := strings.Join(arguments, "][") + "]"; rest != want {
		t.Errorf("arguments %q, want %q", rest, want)
	}
	if want := "\n\x00\x01\r\n\t\x7f\x80\xff"; r.stderr != want {
		t.Errorf("stderr %q, want %q", r.stderr, want)
	}
}

func TestBoot_MuchOutputAndOneWriter(t *testing.T) {
	needUML(t)
	const size = 20 << 20
	var both bytes.Buffer
	m, err := Start(t.Context(), Options{
		Command: script(`head -c 10M /dev/zero; head -c 10M /dev/zero >&2`), Backend: UML,
		Stdout: &both, Stderr: &both, Log: &bytes.Buffer{}, Timeout: 3 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	if status, err := m.Wait(); status != 0 || err != nil || both.Len() != size {
		t.Errorf("status %d, %v, %d bytes of %d", status, err, both.Len(), size)
	}
	if err := m.CutPower(); err != nil {
		t.Errorf("cutting the power after the end: %v", err)
	}
	if status, err := m.Wait(); status != 0 || err != nil {
		t.Errorf("waiting again: %d, %v", status, err)
	}
}

func TestBoot_TimeLimit(t *testing.T) {
	began := time.Now()
	r := runUML(t, Options{Command: script(`echo before; sleep 1000 & sleep 1000`), Timeout: 4 * time.Second})
	if !errors.Is(r.err, ErrTimeLimit) || !strings.Contains(r.err.Error(), "4s") || r.stdout != "before\n" {
		t.Errorf("%+v", r)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestBoot_ContextEnds(t *testing.T) {
	needUML(t)
	reason := errors.New("no longer wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	m, err := Start(ctx, Options{Command: script(`echo ready; sleep 1000`), Backend: UML, Log: &bytes.Buffer{},
		Stdout: &onText{text: "ready", do: func() { cancel(reason) }}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Wait(); !errors.Is(err, reason) {
		t.Errorf("error %v", err)
	}
	if m, err = Start(ctx, Options{Command: script(`true`), Backend: UML, Log: &bytes.Buffer{}}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Wait(); !errors.Is(err, reason) {
		t.Errorf("started after the end: %v", err)
	}
}

// onText calls do once, as soon as text was written.
type onText struct {
	text string
	do   func()
	once sync.Once
	seen bytes.Buffer
}

func (w *onText) Write(p []byte) (int, error) {
	w.seen.Write(p)
	if strings.Contains(w.seen.String(), w.text) {
		w.once.Do(w.do)
	}
	return len(p), nil
}

func TestBoot_KernelDies(t *testing.T) {
	for _, tc := range []struct {
		name, lines, reason string
	}{
		{"panic", `echo c >/proc/sysrq-trigger; sleep 1000`, "panicked while the command ran (Kernel panic - not syncing: sysrq triggered crash)"},
		{"power off", `echo o >/proc/sysrq-trigger; sleep 1000`, "stopped while the command ran without telling"},
		{"reboot", `echo b >/proc/sysrq-trigger; sleep 1000`, "was rebooted by the command"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := runUML(t, Options{Command: script(tc.lines)})
			var died *DiedError
			if !errors.As(r.err, &died) || !strings.Contains(died.Reason, tc.reason) || len(died.Console) == 0 {
				t.Errorf("error %v", r.err)
			}
		})
	}
}

func TestBoot_OutOfMemory(t *testing.T) {
	// A tail without a line's end keeps what it reads.
	r := runUML(t, Options{Command: script(`head -c 400M /dev/zero | tail -n1 | wc -c; exit 5`), MemoryMiB: 128})
	if r.err != nil || r.status != 5 || !strings.Contains(r.log, "out of memory: the throwaway kernel has 128 MiB") {
		t.Errorf("%+v", r)
	}
}

func TestBoot_SetupFails(t *testing.T) {
	r := runUML(t, Options{Command: script(`true`), Modules: []string{"no-such-module"}})
	var setup *SetupError
	if !errors.As(r.err, &setup) || !strings.Contains(setup.Problem, "module no-such-module is not in") {
		t.Errorf("error %v", r.err)
	}
}

func TestBoot_GlitchStartsOnceMore(t *testing.T) {
	share := t.TempDir()
	once := Options{
		Command: script(`[ ! -e /share/ran ] || exit 9; touch /share/ran; echo "` + glitchText + `" >&2; exit 2`),
		Shares:  []Share{{Host: share, Guest: "/share"}},
	}
	r := runUML(t, once)
	if r.err != nil || r.status != 9 || !strings.Contains(r.log, "starting once more") {
		t.Errorf("%+v", r)
	}
	always := Options{Command: script(`echo "` + glitchText + `"; exit 2`)}
	r = runUML(t, always)
	var glitch *GlitchError
	if !errors.As(r.err, &glitch) || strings.Count(r.stdout, glitchText) != 2 {
		t.Errorf("twice: %+v", r)
	}
	always.Disks = []Disk{{File: filepath.Join(share, "disk"), SizeBytes: 1 << 20}}
	r = runUML(t, always)
	if !errors.As(r.err, &glitch) || strings.Count(r.stdout, glitchText) != 1 || !strings.Contains(r.err.Error(), "no longer as they were") {
		t.Errorf("with a disk file: %+v", r)
	}
}
