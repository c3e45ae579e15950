package driver

import "fmt"

// complaint is a mistake that a user can make, with the words in which this
// driver says so. The words name what is wrong, where, and what would be
// right. Every complaint is a package-level variable of this package;
// docs/errors.md is made from them (go test ./pkg/driver -run Errors -update).
type complaint struct {
	// kind is the sentinel that decides the gRPC code.
	kind error
	// format is the message, for fmt.Sprintf.
	format string
	// when tells, for the documentation, what brings the message up.
	when string
}

// complaintError is a complaint with its facts filled in.
type complaintError struct {
	kind error
	text string
}

func (e *complaintError) Error() string { return e.text }
func (e *complaintError) Unwrap() error { return e.kind }

// errorf returns the complaint as an error that matches its kind.
func (c complaint) errorf(args ...any) error {
	return &complaintError{kind: c.kind, text: fmt.Sprintf(c.format, args...)}
}
