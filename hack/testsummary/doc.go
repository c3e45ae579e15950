// Command testsummary runs the steps of a test run, keeps count, and closes it.
//
//	testsummary run -results DIR -label NAME -- go test -json ./...
//	testsummary step -results DIR -label NAME -- make demo
//	testsummary total -results DIR
//
// run starts a "go test -json" command and shows one line per package, the whole
// output of what failed, and once in a while what is still running. It fails when
// the command failed, and also when a test was skipped without saying why: a skip
// nobody can judge is a test nobody runs.
//
// step starts any other command, passes its output on, and counts it as one.
//
// Both leave NAME.json in DIR. total adds those up: it prints each skipped test
// with its reason, the slowest packages, and, alone on the last line,
// "N passed, N failed, N skipped". It fails when anything failed or nothing ran.
//
// A test with subtests is counted by its subtests alone, unless it failed and none
// of them did; so the numbers are numbers of things that were looked at.
package main
