package poolconfig

import (
	"fmt"
	"strings"
)

// The device-mapper name of a volume is <volume group>-<logical volume> with
// every hyphen of both doubled, 127 bytes at most, and the volume ID is
// <volume group>/<logical volume>, 128 bytes at most. With these bounds the
// names that the driver gives its volumes fit both.
const (
	maxEscapedVolumeGroupBytes = 64
	// The hidden parts of a thin pool have 6 bytes more ("_tdata", "-tpool").
	maxEscapedThinPoolBytes = 127 - maxEscapedVolumeGroupBytes - 1 - 6
)

func volumeGroupProblem(name string) string {
	return nameProblem("volume group", name, maxEscapedVolumeGroupBytes)
}

// thinPoolProblem also refuses the names that LVM keeps for itself (lvm(8)).
func thinPoolProblem(name string) string {
	if problem := nameProblem("thin pool", name, maxEscapedThinPoolBytes); problem != "" {
		return problem
	}
	for _, prefix := range []string{"snapshot", "pvmove"} {
		if strings.HasPrefix(name, prefix) {
			return fmt.Sprintf("thin pool name %q: LVM keeps names that begin with %q for itself", name, prefix)
		}
	}
	for _, part := range []string{"_cdata", "_cmeta", "_corig", "_cpool", "_cvol", "_imeta", "_iorig", "_mimage", "_mlog",
		"_pmspare", "_rimage", "_rmeta", "_tdata", "_tmeta", "_vdata", "_vorigin", "_wcorig"} {
		if strings.Contains(name, part) {
			return fmt.Sprintf("thin pool name %q: LVM keeps names with %q for itself", name, part)
		}
	}
	return ""
}

func nameProblem(what, name string, maxEscapedBytes int) string {
	switch {
	case name == "":
		return what + " name is empty"
	case name == "." || name == ".." || name[0] == '-':
		return fmt.Sprintf("%s name %q: LVM takes neither '.', '..' nor a leading '-'", what, shorten(name))
	}
	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("+_.-", c) >= 0 {
			continue
		}
		return fmt.Sprintf("%s name %q: LVM takes letters, digits, '+', '_', '.' and '-'", what, shorten(name))
	}
	if n := len(name) + strings.Count(name, "-"); n > maxEscapedBytes {
		return fmt.Sprintf("%s name %q has %d bytes with each '-' counted twice, at most %d are supported", what, shorten(name), n, maxEscapedBytes)
	}
	return ""
}

// isUUID tells whether text is a UUID as LVM writes it: letters and digits in
// groups of 6-4-4-4-4-4-6.
func isUUID(text string) bool {
	groups := strings.Split(text, "-")
	lengths := []int{6, 4, 4, 4, 4, 4, 6}
	if len(groups) != len(lengths) {
		return false
	}
	for i, group := range groups {
		if len(group) != lengths[i] || strings.Trim(group, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") != "" {
			return false
		}
	}
	return true
}
