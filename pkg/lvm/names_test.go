package lvm

import (
	"errors"
	"strings"
	"testing"
)

func TestValidNewRef(t *testing.T) {
	long := strings.Repeat("a", 128)
	tests := map[string]struct {
		ref Ref
		ok  bool
	}{
		"ordinary":                    {Ref{"vg", "pvc-0f3c1e5a-1f0b-4c5e-9a53-2b8a5f1f7a11"}, true},
		"all characters":              {Ref{"vg", "aZ09+_.-"}, true},
		"no name":                     {Ref{"vg", ""}, false},
		"no volume group":             {Ref{"", "a"}, false},
		"dot":                         {Ref{"vg", "."}, false},
		"dots":                        {Ref{"vg", ".."}, false},
		"an option":                   {Ref{"vg", "-y"}, false},
		"an option as a volume group": {Ref{"-S", "a"}, false},
		"a path":                      {Ref{"vg", "a/b"}, false},
		"a blank":                     {Ref{"vg", "a b"}, false},
		"a newline":                   {Ref{"vg", "a\n"}, false},
		"a quote, for selections":     {Ref{"vg", `a"`}, false},
		"beyond ASCII":                {Ref{"vg", "päc"}, false},
		"128 bytes":                   {Ref{"vg", long}, false},
		"reserved beginning":          {Ref{"vg", "snapshot-1"}, false},
		"another":                     {Ref{"vg", "pvmove0"}, false},
		"reserved part":               {Ref{"vg", "x_tdata"}, false},
		"reserved part in the middle": {Ref{"vg", "x_rimage_0"}, false},
		"spare":                       {Ref{"vg", "lvol0_pmspare"}, false},
		"almost reserved":             {Ref{"vg", "tdata"}, true},
		"hyphens count twice":         {Ref{"vg", strings.Repeat("a-", 40)}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := validNewRef(test.ref)
			if test.ok != (err == nil) || err != nil && !errors.Is(err, ErrInvalid) {
				t.Errorf("got %v, want ok %v", err, test.ok)
			}
		})
	}
}

func TestValidRef_AcceptsReservedNames(t *testing.T) {
	// They cannot be given, but volumes that have them can be named.
	if err := validRef(Ref{"vg", "snapshot-1"}); err != nil {
		t.Error(err)
	}
}

func TestDeviceMapperName(t *testing.T) {
	if got, want := deviceMapperName(Ref{"v-g", "l--v"}), "v--g-l----v"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestValidTags(t *testing.T) {
	tests := map[string]struct {
		tags []string
		ok   bool
	}{
		"none":           {nil, true},
		"all characters": {[]string{"aZ09_+.-/=!:&#"}, true},
		"empty":          {[]string{""}, false},
		"hyphen first":   {[]string{"-a"}, false},
		"blank":          {[]string{"a b"}, false},
		"comma":          {[]string{"a,b"}, false},
		"at sign":        {[]string{"@a"}, false},
		"newline":        {[]string{"a\n"}, false},
		"too long":       {[]string{strings.Repeat("a", 1025)}, false},
		"twice":          {[]string{"a", "b", "a"}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := validTags(test.tags)
			if test.ok != (err == nil) || err != nil && !errors.Is(err, ErrInvalid) {
				t.Errorf("got %v, want ok %v", err, test.ok)
			}
		})
	}
}
