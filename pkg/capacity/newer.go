package capacity

import (
	"strconv"
	"strings"
)

// NewerThan tells whether the report was written by a newer program than the one
// of that version: by its format, else by the numbers of the two versions. What
// follows the numbers ("-4-gabcdef", "-dirty") orders nothing; a version without
// numbers is never newer.
func (r Report) NewerThan(version string) bool {
	if r.Format > ReportFormat {
		return true
	}
	theirs, ok := versionNumbers(r.Writer)
	ours, known := versionNumbers(version)
	if !ok || !known {
		return false
	}
	for i := range theirs {
		if theirs[i] != ours[i] {
			return theirs[i] > ours[i]
		}
	}
	return false
}

// versionNumbers reads v1.2.3, with anything behind a '-' or '+'.
func versionNumbers(version string) (numbers [3]uint64, ok bool) {
	core, isVersion := strings.CutPrefix(version, "v")
	if i := strings.IndexAny(core, "-+"); i >= 0 {
		core = core[:i]
	}
	parts := strings.Split(core, ".")
	if !isVersion || len(parts) != len(numbers) {
		return numbers, false
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 32)
		if err != nil {
			return numbers, false
		}
		numbers[i] = n
	}
	return numbers, true
}
