package capacity

import (
	"math"
	"math/bits"
)

// ratioUnit: ratios count in thousandths, so that 1.1 means 11/10 and not the
// nearest binary fraction.
const ratioUnit = 1000

// MaxRatio bounds ratios; above it [ScaleBytes] saturates anyway for any real disk.
const MaxRatio = 1000

// ScaleBytes returns bytes × ratio, rounded down, for bytes ≥ 0. The ratio is
// taken in thousandths and held between 0 and [MaxRatio]; what is no number
// counts as 0. A product beyond int64 is the largest int64.
func ScaleBytes(bytes int64, ratio float64) int64 {
	if !(ratio > 0) || bytes <= 0 {
		return 0
	}
	thousandths := uint64(math.Round(min(ratio, MaxRatio) * ratioUnit))
	high, low := bits.Mul64(uint64(bytes), thousandths)
	if high >= ratioUnit {
		return math.MaxInt64
	}
	quotient, _ := bits.Div64(high, low, ratioUnit)
	return int64(min(quotient, math.MaxInt64))
}
