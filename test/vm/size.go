package vm

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseSize reads a size in bytes: a whole number, with K, M, G or T for powers of
// 1024 (also written Ki or KiB and so on). Its error is an *OptionError.
func ParseSize(text string) (int64, error) {
	digits := strings.TrimRight(text, "KMGTiB")
	unit, ok := sizeUnits[text[len(digits):]]
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || n <= 0 || strings.HasPrefix(digits, "+") {
		return 0, &OptionError{Problem: fmt.Sprintf(
			"size %q: use a whole number above 0 with K, M, G or T, such as 512M or 5G", text)}
	}
	if n > math.MaxInt64/unit {
		return 0, &OptionError{Problem: fmt.Sprintf("size %q is larger than any disk can be", text)}
	}
	return n * unit, nil
}

var sizeUnits = map[string]int64{
	"": 1, "B": 1,
	"K": 1 << 10, "Ki": 1 << 10, "KiB": 1 << 10,
	"M": 1 << 20, "Mi": 1 << 20, "MiB": 1 << 20,
	"G": 1 << 30, "Gi": 1 << 30, "GiB": 1 << 30,
	"T": 1 << 40, "Ti": 1 << 40, "TiB": 1 << 40,
}
