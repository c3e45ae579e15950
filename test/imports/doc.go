// Package imports holds the rules of the code that no compiler checks, and the test
// that applies them to this repository: which package may know which (docs/design.md
// has the picture), how long a file and a function may be, and a few calls that have
// no place here.
//
// The rules are data (arrows.go, source.go), so that each can be shown to fail on
// made-up input. A line that has a good reason to break a source rule says so on the
// line itself or on the line above it:
//
//	//allow:exec the shell must outlive the request that starts it
//
// An allowance without a reason is itself a finding.
package imports
