// Package admin runs commands as an administrator does by hand, for tests.
package admin

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Run returns what the command wrote to its standard output. A failure ends the test,
// which shows what was written to standard error.
func Run(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// CleanUp is Run for when the test's own context has ended. A failure fails the test
// and lets the rest be cleaned up.
func CleanUp(t testing.TB, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Errorf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
}
