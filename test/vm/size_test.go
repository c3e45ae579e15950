package vm

import (
	"errors"
	"testing"
)

func TestParseSize(t *testing.T) {
	for _, tc := range []struct {
		text string
		want int64 // 0 means an error
	}{
		{"512", 512}, {"1B", 1}, {"4K", 4096}, {"4Ki", 4096}, {"4KiB", 4096},
		{"512M", 512 << 20}, {"5G", 5 << 30}, {"5GiB", 5 << 30}, {"2T", 2 << 40},
		{"8388607T", 8388607 << 40},
		{"", 0}, {"G", 0}, {"0", 0}, {"0G", 0}, {"-1G", 0}, {"+1G", 0}, {"1.5G", 0}, {"5g", 0}, {"5GB", 0},
		{"5 G", 0}, {"G5", 0}, {"5GG", 0}, {"5iB", 0}, {"1e3", 0}, {"0x10", 0},
		{"8388608T", 0}, {"9223372036854775808", 0},
	} {
		got, err := ParseSize(tc.text)
		if got != tc.want {
			t.Errorf("ParseSize(%q) = %d, want %d", tc.text, got, tc.want)
		}
		var wrong *OptionError
		if (tc.want == 0) != errors.As(err, &wrong) {
			t.Errorf("ParseSize(%q): error %v", tc.text, err)
		}
	}
}
