package lvm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// Command is one LVM command: name and arguments as lvm(8) takes them.
type Command struct {
	Name string
	Args []string
}

// LogEntry is one row of LVM's command log (lvmreport(7), log/report_command_log).
type LogEntry struct {
	Type       string `json:"log_type"` // "status", "error", "warn", "print"
	ObjectType string `json:"log_object_type"`
	ObjectName string `json:"log_object_name"`
	Message    string `json:"log_message"`
	RetCode    string `json:"log_ret_code"`
}

// Result is the outcome of a command that LVM itself ended.
type Result struct {
	// Report is the value of "report" in LVM's answer; nil if the command has none.
	Report json.RawMessage
	Log    []LogEntry
	// ExitCode is 0 for success, else as lvm(8) says: 3 for an invalid command
	// line, 5 for a failed command.
	ExitCode int
	// Started tells that an operating system process was started for it.
	Started bool
}

// Failures are LVM's own errors and warnings, in order.
func (r Result) Failures() []string {
	var out []string
	for _, e := range r.Log {
		if e.Type == "error" || e.Type == "warn" {
			out = append(out, e.Message)
		}
	}
	return out
}

// Runner runs LVM commands, one at a time: its methods must not be called
// concurrently.
type Runner interface {
	// Run runs a command to its end. ctx is looked at before the command is
	// started and not afterwards: a started command is never interrupted. The
	// error is non-nil only if LVM gave no outcome: it matches ErrTimeout (not
	// started), ErrInvalid (cannot be expressed), ErrUnavailable (lvm cannot be
	// started or died) or ErrReport (the answer made no sense). After the last
	// two, whether the command had an effect must be found out.
	Run(ctx context.Context, cmd Command) (Result, error)
	// Reset makes the next command read the configuration anew.
	Reset() error
	// Close ends what the runner keeps running; no command may follow.
	Close() error
}

// answer is the JSON document that LVM writes for each command.
type answer struct {
	Report json.RawMessage `json:"report,omitempty"`
	Log    []LogEntry      `json:"log"`
}

// noReport tells whether an answer has no report. That is not the same as an
// empty report ([]): only the latter says that there is nothing.
func noReport(raw json.RawMessage) bool {
	return len(raw) == 0 || string(raw) == "null"
}

// errTooLong: LVM wrote more than MaxOutputBytes for one command.
var errTooLong = errors.New("answer is too long")

// notStarted is the error of a command that ctx forbade to start.
func notStarted(ctx context.Context) error {
	return fmt.Errorf("%w: %w", ErrTimeout, context.Cause(ctx))
}
