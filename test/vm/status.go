package vm

import (
	"fmt"
	"strconv"
	"strings"
)

// The throwaway kernel's init reports on a serial line of its own, one event a line:
//
//	start          the command is about to be started
//	exit N         the command ended, and what it wrote is on disk
//	setup "TEXT"   something before the command failed
type report struct {
	started bool
	exited  bool
	status  int
	setup   string // not empty: what failed before the command
}

// read takes one line. Lines of an unknown kind are errors: the line belongs to init
// alone.
func (r *report) read(line string) error {
	kind, rest, _ := strings.Cut(line, " ")
	switch kind {
	case "start":
		r.started = true
		return nil
	case "exit":
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 || n > 255 {
			return fmt.Errorf("exit status %q is not a number from 0 to 255", rest)
		}
		r.exited, r.status = true, n
		return nil
	case "setup":
		text, err := strconv.Unquote(rest)
		if err != nil {
			return fmt.Errorf("message %s: %w", rest, err)
		}
		r.setup = text
		return nil
	default:
		return fmt.Errorf("unknown report %q", line)
	}
}

func startLine() string              { return "start\n" }
func exitLine(status int) string     { return fmt.Sprintf("exit %d\n", status) }
func setupLine(problem error) string { return "setup " + strconv.Quote(problem.Error()) + "\n" }
