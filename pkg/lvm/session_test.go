package lvm

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// runners are the two implementations; what both must do is tested with both.
func runners(t *testing.T, d fakeDir) map[string]Runner {
	t.Helper()
	session, plain := newSession(d.environment(), 1<<20, 1000), newExec(d.environment(), 1<<20)
	t.Cleanup(func() {
		if err := errors.Join(session.Close(), plain.Close()); err != nil {
			t.Error(err)
		}
	})
	return map[string]Runner{"session": session, "exec": plain}
}

func TestRunner_Answers(t *testing.T) {
	failure := []LogEntry{{Type: "error", ObjectType: "lv", ObjectName: "a", Message: "no such volume", RetCode: "0"}}
	tests := map[string]struct {
		reply    reply
		wantCode int
		wantMsgs []string
		wantErr  error
	}{
		"success":                              {reply: reply{Report: json.RawMessage(`[{"lv":[]}]`)}},
		"failure with its reason":              {reply: reply{ExitCode: 5, Log: failure}, wantCode: 5, wantMsgs: []string{"no such volume"}},
		"bad command line":                     {reply: reply{ExitCode: 3}, wantCode: 3},
		"warnings on stderr":                   {reply: reply{Stderr: "WARNING: {\"report\": bogus\n"}},
		"advice in the middle of the report":   {reply: reply{Raw: "{\"report\": [\nRun vgck.\n{}]}\n", DieAfter: true}, wantErr: ErrReport},
		"JSON with a trailing comma":           {reply: reply{Raw: `{"log": [{"log_type":"warn"},]}` + "\n", DieAfter: true}, wantErr: ErrReport},
		"more than may be":                     {reply: reply{Pad: 2 << 20, DieAfter: true}, wantErr: ErrReport},
		"an answer that is not an object":      {reply: reply{Raw: "[]\n", DieAfter: true}, wantErr: ErrReport},
		"words of a translation, not a number": {reply: reply{Raw: "{\"log\": \"Erfolg\"}\n", DieAfter: true}, wantErr: ErrReport},
	}
	for name, test := range tests {
		d := newFakeDir(t)
		for kind, runner := range runners(t, d) {
			t.Run(name+", "+kind, func(t *testing.T) {
				d.on("lvs", test.reply)
				got, err := runner.Run(t.Context(), Command{Name: "lvs", Args: []string{"a b"}})
				if !errors.Is(err, test.wantErr) || got.ExitCode != test.wantCode {
					t.Fatalf("got exit code %d, error %v; want %d, %v", got.ExitCode, err, test.wantCode, test.wantErr)
				}
				if diff := cmp.Diff(test.wantMsgs, got.Failures()); diff != "" {
					t.Errorf("messages (-want +got):\n%s", diff)
				}
				if err == nil && string(got.Report) != string(test.reply.Report) {
					t.Errorf("report %s, want %s", got.Report, test.reply.Report)
				}
				// Whatever happened, the next command works.
				if r, err := runner.Run(t.Context(), Command{Name: "vgs"}); err != nil || r.ExitCode != 0 {
					t.Errorf("next command: %+v, %v", r, err)
				}
			})
		}
	}
}

func TestRunner_LVMDiesDuringACommand(t *testing.T) {
	d := newFakeDir(t)
	for kind, runner := range runners(t, d) {
		t.Run(kind, func(t *testing.T) {
			d.on("lvcreate", reply{Die: true, Stderr: "Segmentation fault\n"})
			if kind == "exec" {
				// A process of its own has an exit status, whatever it means.
				return
			}
			_, err := runner.Run(t.Context(), Command{Name: "lvcreate"})
			if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "Segmentation fault") {
				t.Errorf("got %v, want ErrUnavailable with lvm's last words", err)
			}
			if _, err := runner.Run(t.Context(), Command{Name: "vgs"}); err != nil {
				t.Errorf("next command: %v", err)
			}
		})
	}
}

func TestExec_FailureWithoutReportQuotesStderr(t *testing.T) {
	d := newFakeDir(t)
	d.on("lvs", reply{Raw: " ", ExitCode: 5, Stderr: "Failed to load config file\n"})
	got, err := newExec(d.environment(), 1<<20).Run(t.Context(), Command{Name: "lvs"})
	if err != nil || got.ExitCode != 5 || len(got.Failures()) != 1 || got.Failures()[0] != "Failed to load config file" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestSession_OneProcessForManyCommands(t *testing.T) {
	d := newFakeDir(t)
	s := newSession(d.environment(), 1<<20, 3)
	for i := range 5 {
		r, err := s.Run(t.Context(), Command{Name: "vgs"})
		if err != nil {
			t.Fatal(err)
		}
		if want := i == 0 || i == 3; r.Started != want {
			t.Errorf("command %d: process started %v, want %v", i, r.Started, want)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	want := []string{"(start)", "vgs", "vgs", "vgs", "(start)", "vgs", "vgs"}
	if diff := cmp.Diff(want, d.asked()); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

func TestSession_ShellThatEndedBetweenCommandsIsReplaced(t *testing.T) {
	d := newFakeDir(t)
	s := newSession(d.environment(), 1<<20, 1000)
	d.on("vgs", reply{DieAfter: true})
	for range 3 {
		if _, err := s.Run(t.Context(), Command{Name: "vgs"}); err != nil {
			t.Fatal(err)
		}
		<-s.shell.exited
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if got := strings.Count(strings.Join(d.asked(), "\n"), "(start)"); got != 3 {
		t.Errorf("%d shells, want 3: %q", got, d.asked())
	}
}

func TestRunner_StartedCommandIsNotInterrupted(t *testing.T) {
	d := newFakeDir(t)
	for kind, runner := range runners(t, d) {
		t.Run(kind, func(t *testing.T) {
			path, running := d.pipe(kind)
			d.on("lvcreate", reply{WaitFor: path})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := runner.Run(ctx, Command{Name: "lvcreate"})
				done <- err
			}()
			release := running()
			cancel()
			select {
			case err := <-done:
				t.Errorf("returned before lvm did: %v", err)
			default:
			}
			release()
			if err := <-done; err != nil {
				t.Errorf("got %v, want the command's own outcome", err)
			}
		})
	}
}

func TestRunner_EndedContextStartsNothing(t *testing.T) {
	d := newFakeDir(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for kind, runner := range runners(t, d) {
		if _, err := runner.Run(ctx, Command{Name: "lvs"}); !errors.Is(err, ErrTimeout) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want ErrTimeout and context.Canceled", kind, err)
		}
	}
	if got := d.asked(); len(got) != 1 || got[0] != "" {
		t.Errorf("commands %q, want none", got)
	}
}

func TestRunner_NoSuchProgram(t *testing.T) {
	env := environment{lvmPath: "/nonexistent/lvm", systemDir: t.TempDir(), outputDir: t.TempDir()}
	for kind, runner := range map[string]Runner{"session": newSession(env, 1<<20, 10), "exec": newExec(env, 1<<20)} {
		if _, err := runner.Run(t.Context(), Command{Name: "lvs"}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: got %v, want ErrUnavailable", kind, err)
		}
	}
}

// brokenPipe fails as writing to a process does that has just ended.
type brokenPipe struct{ io.WriteCloser }

func (brokenPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestSession_CommandThatWasNeverReadIsSentAgain(t *testing.T) {
	d := newFakeDir(t)
	s := newSession(d.environment(), 1<<20, 1000)
	if _, err := s.Run(t.Context(), Command{Name: "vgs"}); err != nil {
		t.Fatal(err)
	}
	s.shell.stdin = brokenPipe{s.shell.stdin}
	if r, err := s.Run(t.Context(), Command{Name: "lvcreate"}); err != nil || !r.Started {
		t.Errorf("got %+v, %v", r, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"(start)", "vgs", "(start)", "lvcreate"}, d.asked()); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}
