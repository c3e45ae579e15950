package testbed

import (
	"testing"
	"time"
)

// lookEvery is the time between two looks of [Eventually].
const lookEvery = 100 * time.Millisecond

// Eventually waits until check returns nothing to complain of. If that takes longer
// than within, the test ends with the last complaint.
func Eventually(t testing.TB, within time.Duration, what string, check func() (complaint string)) {
	t.Helper()
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		complaint := check()
		if complaint == "" {
			return
		}
		select {
		case <-timeout.C:
			t.Fatalf("%s: not within %v: %s", what, within, complaint)
		case <-tick.C:
		}
	}
}
