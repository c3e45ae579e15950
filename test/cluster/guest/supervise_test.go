package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestSupervise_StartsAgainUntilStopped(t *testing.T) {
	// Several, since each is stopped as soon as it runs again, which is no safe moment.
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			log, err := os.Create(filepath.Join(t.TempDir(), "log"))
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			read := func() string {
				content, err := os.ReadFile(log.Name())
				if err != nil {
					t.Fatal(err)
				}
				return string(content)
			}
			// The first one ends by itself, the second one waits for a signal.
			const program = `if [ -e "$0" ]; then echo second; exec sleep infinity; fi; touch "$0"; exit 4`
			s, err := supervise(t.Context(), "program", log, "/bin/sh", "-c", program, filepath.Join(t.TempDir(), "was-here"))
			if err != nil {
				t.Fatal(err)
			}
			const want = "node: program ended (exit status 4), starting it again\nsecond\n"
			waitFor(t, "second start", func() bool { return read() == want })
			go s.stop()
			waitFor(t, "end", func() bool {
				select {
				case <-s.ended:
					return true
				default:
					return false
				}
			})
			if got := read(); got != want {
				t.Errorf("the log says %q, want %q", got, want)
			}
		})
	}
}

func TestSupervise_ProgramThatDoesNotExist(t *testing.T) {
	if _, err := supervise(t.Context(), "nothing", os.Stderr, "/no/such"); err == nil {
		t.Error("it was started")
	}
}
