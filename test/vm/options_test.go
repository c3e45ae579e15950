package vm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOptions_Validate(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "disk.img")
	if err := os.WriteFile(file, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	absent := filepath.Join(dir, "absent")
	run := []string{"true"}
	for _, tc := range []struct {
		name string
		o    Options
		want []string // parts of the error; none means valid
	}{
		{"all defaults", Options{Command: run}, nil},
		{"everything", Options{Command: run, Backend: UML, MemoryMiB: 256, Timeout: time.Minute, PowerCut: true,
			Disks:  []Disk{{SizeBytes: 512}, {File: file}, {File: file, SizeBytes: 8192}, {File: absent, SizeBytes: 512}},
			Shares: []Share{{Host: dir, Guest: "/results"}}, Env: []string{"A=", "B=c=d"}, Modules: []string{"dm-dust"}}, nil},
		{"no command", Options{}, []string{"name the program"}},
		{"empty command", Options{Command: []string{""}}, []string{"name the program"}},
		{"zero byte", Options{Command: []string{"a", "b\x00"}}, []string{"zero byte"}},
		{"backend", Options{Command: run, Backend: "kvm"}, []string{`"kvm" is not known: use auto, uml or host`}},
		{"power of the host", Options{Command: run, Backend: Host, PowerCut: true}, []string{"cannot cut the power: use uml"}},
		{"modules of the host", Options{Command: run, Backend: Host, Modules: []string{"a"}}, []string{"use uml"}},
		{"memory", Options{Command: run, MemoryMiB: 3}, []string{"at least 64 MiB"}},
		{"time limit", Options{Command: run, Timeout: -1}, []string{"negative"}},
		{"too many disks", Options{Command: run, Disks: manyDisks(16)}, []string{"at most 15"}},
		{"disk without size", Options{Command: run, Disks: []Disk{{}}}, []string{"disk 1: has no size"}},
		{"odd size", Options{Command: run, Disks: []Disk{{SizeBytes: 513}}}, []string{"multiple of 512"}},
		{"negative size", Options{Command: run, Disks: []Disk{{SizeBytes: -512}}}, []string{"multiple of 512"}},
		{"absent file", Options{Command: run, Disks: []Disk{{File: absent}}}, []string{"give a size to make it"}},
		{"empty file", Options{Command: run, Disks: []Disk{{File: empty}}}, []string{"is empty"}},
		{"larger file", Options{Command: run, Disks: []Disk{{File: file, SizeBytes: 512}}}, []string{"not cut to 512"}},
		{"folder", Options{Command: run, Disks: []Disk{{File: dir}}}, []string{"not a regular file"}},
		{"share of nothing", Options{Command: run, Shares: []Share{{Host: absent, Guest: "/a"}}}, []string{"share 1", "no such file"}},
		{"share of a file", Options{Command: run, Shares: []Share{{Host: file, Guest: "/a"}}}, []string{"not a folder"}},
		{"share to a relative folder", Options{Command: run, Shares: []Share{{Host: dir, Guest: "a"}}}, []string{"must be absolute"}},
		{"share to the root", Options{Command: run, Shares: []Share{{Host: dir, Guest: "/."}}}, []string{"must be absolute and not /"}},
		{"environment", Options{Command: run, Env: []string{"A", "=b"}}, []string{`"A": use NAME=VALUE`, `"=b": use NAME=VALUE`}},
		{"module", Options{Command: run, Modules: []string{"../x"}}, []string{"as modprobe knows it"}},
		{"all at once", Options{MemoryMiB: 1, Timeout: -1}, []string{"no command", "MiB", "negative"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := tc.o.withDefaults()
			if (err == nil) != (len(tc.want) == 0) {
				t.Fatalf("error %v", err)
			}
			var wrong *OptionError
			if err != nil && !errors.As(err, &wrong) {
				t.Errorf("%v is no OptionError", err)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}

func manyDisks(n int) []Disk {
	disks := make([]Disk, n)
	for i := range disks {
		disks[i].SizeBytes = 64 << 20
	}
	return disks
}
