package installed

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestFillBytes(t *testing.T) {
	const mib = int64(1) << 20
	for _, c := range []struct {
		bytes, count, want int64 // 0: an error
	}{
		{1000 * mib, 10, 100 * mib},
		{1020 * mib, 10, 100 * mib}, // 102 is no multiple of an extent
		{40 * mib, 10, 4 * mib},
		{44 * mib, 10, 0}, // an eleventh fits
		{39 * mib, 10, 0},
		{0, 10, 0},
	} {
		got, err := FillBytes(c.bytes, c.count)
		if got != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%d volumes in %d MiB: %d bytes, error %v; want %d", c.count, c.bytes/mib, got, err, c.want)
		}
	}
}

func TestUntil(t *testing.T) {
	broken := errors.New("broken")
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		err := Until(t.Context(), time.Minute, "it", func(context.Context) (string, error) {
			looks++
			switch looks {
			case 1:
				return "not yet", nil
			case 2:
				return "", broken // what fails may do better later
			}
			return "", nil
		})
		if err != nil || looks != 3 {
			t.Errorf("error %v after %d looks", err, looks)
		}
		err = Until(t.Context(), time.Minute, "it", func(context.Context) (string, error) { return "never", broken })
		if !errors.Is(err, broken) || !strings.Contains(err.Error(), "it: not within 1m0s: never") {
			t.Errorf("error %v", err)
		}
	})
}
