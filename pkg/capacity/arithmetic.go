package capacity

import "math"

// roundUp returns the least multiple of unit that is not below n; false if it
// is beyond int64. n must not be negative, unit must be positive.
func roundUp(n, unit int64) (int64, bool) {
	rest := n % unit
	if rest == 0 {
		return n, true
	}
	if n > math.MaxInt64-(unit-rest) {
		return 0, false
	}
	return n + unit - rest, true
}

func roundDown(n, unit int64) int64 { return n - n%unit }

// divideUp is ⌈n ÷ unit⌉ for n ≥ 0, unit > 0, without the overflow of n+unit-1.
func divideUp(n, unit int64) int64 {
	if n%unit == 0 {
		return n / unit
	}
	return n/unit + 1
}

// multiply returns a × b for numbers that are not negative; false if it is beyond int64.
func multiply(a, b int64) (int64, bool) {
	if a != 0 && b > math.MaxInt64/a {
		return 0, false
	}
	return a * b, true
}

// saturatingMultiply is multiply that stops at the largest number.
func saturatingMultiply(a, b int64) int64 {
	if product, ok := multiply(a, b); ok {
		return product
	}
	return math.MaxInt64
}

// saturatingAdd is a + b for numbers that are not negative, or the largest number.
func saturatingAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
