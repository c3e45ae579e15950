package capacity

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestFormatBytes(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 bytes", 1023: "1023 bytes", 1024: "1 KiB (1024 bytes)", 1 << 20: "1 MiB (1048576 bytes)",
		1<<20 - 1: "1023.9 KiB (1048575 bytes)", 12 << 30: "12 GiB (12884901888 bytes)", 3 << 29: "1.5 GiB (1610612736 bytes)",
		1<<30 + 1: "1 GiB (1073741825 bytes)", 5 << 40: "5 TiB (5497558138880 bytes)", -5: "-5 bytes",
		math.MaxInt64: "7.9 EiB (9223372036854775807 bytes)",
	} {
		if got := FormatBytes(bytes); got != want {
			t.Errorf("%d: %q, want %q", bytes, got, want)
		}
	}
}

func TestShortBytes(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5000 << 20: "4.8 GiB"} {
		if got := ShortBytes(bytes); got != want {
			t.Errorf("%d: %q, want %q", bytes, got, want)
		}
	}
}

// What is written for people is never more than the truth, nor much less; and the
// exact number is beside it.
func TestFormatBytes_IsNeverMoreThanTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytes := rapid.Int64Range(1024, math.MaxInt64).Draw(t, "bytes")
		var figure float64
		var unit string
		var exact int64
		if _, err := fmt.Sscanf(FormatBytes(bytes), "%f %s (%d bytes)", &figure, &unit, &exact); err != nil || exact != bytes {
			t.Fatalf("%s: %v", FormatBytes(bytes), err)
		}
		one, ok := map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50, "EiB": 1 << 60}[unit]
		if !ok || figure < 1 || figure >= 1024 {
			t.Fatalf("%s", FormatBytes(bytes))
		}
		if said, truth := figure*float64(one), float64(bytes); said > truth*1.000001 || said < truth-0.101*float64(one) {
			t.Fatalf("%s says %g for %g", FormatBytes(bytes), said, truth)
		}
	})
}
