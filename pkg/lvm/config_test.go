package lvm

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The golden file is what is to be reviewed when the configuration changes;
// that real LVM accepts each line of it is held by the contract suite.
func TestConfigFile_Golden(t *testing.T) {
	tests := map[string]configFile{
		"session.conf":   {devDir: "/dev", lockDir: "/run/lock/lvm", devices: []string{"/dev/mapper/mpath.a", "/dev/sdb"}, session: true},
		"discovery.conf": {devDir: "/dev", lockDir: "/run/lock/lvm", discovery: true, udev: true},
	}
	for name, config := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := config.render()
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name)
			want, err := os.ReadFile(path)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				if os.Getenv("UPDATE_GOLDEN") != "" {
					if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
					return
				}
				t.Errorf("-want +got (UPDATE_GOLDEN=1 writes it):\n%s", diff)
			}
		})
	}
}

func TestFilterPattern(t *testing.T) {
	for _, path := range []string{"/dev/sdb", "/dev/mapper/a.b+c", "/dev/disk/by-id/x:y@z=1,2", "/dev/a*(b){c}?"} {
		pattern, err := filterPattern(path)
		if err != nil {
			t.Fatal(err)
		}
		// Brackets and anchors mean the same to LVM as to Go.
		if re := regexp.MustCompile("^" + pattern + "$"); !re.MatchString(path) || re.MatchString(path+"1") || re.MatchString(strings.Replace(path, "dev", "dXv", 1)) {
			t.Errorf("%s does not match just %s", pattern, path)
		}
	}
	for _, path := range []string{`/dev/a"b`, "/dev/a|b", "/dev/a b", "/dev/a\n", "/dev/a[b]", `/dev/a\b`, "/dev/ä"} {
		if pattern, err := filterPattern(path); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q became %q, %v", path, pattern, err)
		}
	}
}
