package lvm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The test binary is its own fake lvm: started with LVM_REPORT_FD it answers
// commands as the folder LVM_SYSTEM_DIR says. So the real Session and Exec run
// against a real process, pipes and all.
func TestMain(m *testing.M) {
	if os.Getenv("LVM_REPORT_FD") != "" {
		code := runFakeLVM(os.Getenv("LVM_SYSTEM_DIR"), os.Args[1:], os.Stdin, os.NewFile(3, "report"))
		// Go's coverage has a word to say at exit, which lvm has not.
		_ = os.Stderr.Close()
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// reply is what the fake does for one command.
type reply struct {
	// Raw is written instead of a proper answer, if not empty.
	Raw string
	// Report is the value of "report"; none if empty.
	Report json.RawMessage `json:",omitempty"`
	// Log are entries before the status.
	Log []LogEntry
	// ExitCode, 0 for success.
	ExitCode int
	// Stderr is written before the answer.
	Stderr string
	// WaitFor is a named pipe that is read to its end before the answer.
	WaitFor string
	// Die: end without an answer. DieAfter: end after the answer.
	Die, DieAfter bool
	// Pad adds that many bytes of nonsense to the answer.
	Pad int
}

// fakeDir is the folder by which a test tells the fake what to do.
type fakeDir struct {
	t   *testing.T
	dir string
}

func newFakeDir(t *testing.T) fakeDir {
	t.Helper()
	return fakeDir{t: t, dir: t.TempDir()}
}

// on sets the replies to a command, in order; the last one is repeated.
func (d fakeDir) on(command string, replies ...reply) {
	d.t.Helper()
	content, err := json.Marshal(replies)
	if err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.dir, "on-"+command), content, 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// asked are the command lines that the fake got, starts of the shell as "(start)".
func (d fakeDir) asked() []string {
	d.t.Helper()
	content, err := os.ReadFile(filepath.Join(d.dir, "asked"))
	if err != nil && !os.IsNotExist(err) {
		d.t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
}

// pipe makes a named pipe for reply.WaitFor. running waits until the fake runs
// the command that reads it, and returns what lets it go on.
func (d fakeDir) pipe(name string) (path string, running func() (release func())) {
	d.t.Helper()
	path = filepath.Join(d.dir, name)
	if err := unix.Mkfifo(path, 0o600); err != nil {
		d.t.Fatal(err)
	}
	return path, func() func() {
		d.t.Helper()
		// Opening waits for the reader.
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			d.t.Fatal(err)
		}
		return func() {
			if err := f.Close(); err != nil {
				d.t.Error(err)
			}
		}
	}
}

func (d fakeDir) environment() environment {
	d.t.Helper()
	self, err := os.Executable()
	if err != nil {
		d.t.Fatal(err)
	}
	return environment{lvmPath: self, systemDir: d.dir, outputDir: d.dir}
}

func runFakeLVM(dir string, args []string, stdin io.Reader, report io.Writer) int {
	if len(args) > 0 {
		code, _ := fakeCommand(dir, args, report, false)
		return code
	}
	fakeNote(dir, "(start)")
	in := bufio.NewScanner(stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		code, end := fakeCommand(dir, splitLikeLVM(in.Text()), report, true)
		if end {
			return code
		}
	}
	return 0
}

// fakeCommand answers one command; end tells the shell to end.
func fakeCommand(dir string, words []string, report io.Writer, shell bool) (code int, end bool) {
	fakeNote(dir, strings.Join(words, " "))
	r := fakeReply(dir, words[0])
	if r.WaitFor != "" {
		if _, err := os.ReadFile(r.WaitFor); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 99, true
		}
	}
	fmt.Fprint(os.Stderr, r.Stderr)
	if r.Die {
		return 7, true
	}
	if r.Raw != "" {
		fmt.Fprint(report, r.Raw)
		return r.ExitCode, r.DieAfter
	}
	a := answer{Report: r.Report, Log: r.Log}
	if r.Pad > 0 {
		a.Log = append(a.Log, LogEntry{Type: "print", Message: string(bytes.Repeat([]byte("x"), r.Pad))})
	}
	if shell {
		status := LogEntry{Type: "status", ObjectType: "cmd", ObjectName: words[0], Message: "success", RetCode: "1"}
		if r.ExitCode != 0 {
			status.Message, status.RetCode = "failure", fmt.Sprint(r.ExitCode)
		}
		a.Log = append(a.Log, status)
	}
	if err := json.NewEncoder(report).Encode(a); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99, true
	}
	return r.ExitCode, r.DieAfter
}

// fakeReply takes the next reply for a command; without any it is success.
func fakeReply(dir, command string) reply {
	path := filepath.Join(dir, "on-"+command)
	content, err := os.ReadFile(path)
	if err != nil {
		return reply{}
	}
	var replies []reply
	if err := json.Unmarshal(content, &replies); err != nil || len(replies) == 0 {
		return reply{}
	}
	if len(replies) > 1 {
		if rest, err := json.Marshal(replies[1:]); err == nil {
			_ = os.WriteFile(path, rest, 0o600)
		}
	}
	return replies[0]
}

func fakeNote(dir, line string) {
	f, err := os.OpenFile(filepath.Join(dir, "asked"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	fmt.Fprintln(f, line)
	_ = f.Close()
}
