package main

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/csi-local/csi-local/test/vm"
)

func TestParseFlags(t *testing.T) {
	for _, tc := range []struct {
		name string
		args string // separated by |
		want flags
		bad  string // part of the error
	}{
		{name: "a command alone", args: "--|lsblk|-a", want: flags{options: vm.Options{Command: []string{"lsblk", "-a"}}}},
		{name: "everything",
			args: "--disk|2G|--disk=512M|--disk-file|a:b:1G|--disk-file|old.img|--mem|2G|--share|out:/out|--share|/same|--timeout|10m" +
				"|--udev|--raid6|--env|A=b c|--backend|uml|--modules|dm-dust,dm-era|--dir|/tmp|--cut-after|5s|--console|--|sh|-c|echo hi",
			want: flags{cutAfter: 5 * time.Second, console: true, options: vm.Options{
				Disks:     []vm.Disk{{SizeBytes: 2 << 30}, {SizeBytes: 512 << 20}, {File: "a:b", SizeBytes: 1 << 30}, {File: "old.img"}},
				MemoryMiB: 2048, Shares: []vm.Share{{Host: "out", Guest: "/out"}, {Host: "/same", Guest: "/same"}},
				Timeout: 10 * time.Minute, Udev: true, RAID6: true, Env: []string{"A=b c"}, Backend: vm.UML,
				Modules: []string{"dm-dust", "dm-era"}, Dir: "/tmp", PowerCut: true, Command: []string{"sh", "-c", "echo hi"},
			}}},
		{name: "help", args: "-h", want: flags{help: true}},
		{name: "packages", args: "--print-packages", want: flags{printPackages: true}},
		{name: "no command", args: "--disk|1G", bad: "add -- and the command"},
		{name: "nothing", args: "", bad: "add -- and the command"},
		{name: "unknown flag", args: "--disks|1G|--|ls", bad: "not defined: -disks"},
		{name: "size", args: "--disk|5|--|ls"},
		{name: "bad size", args: "--disk|5X|--|ls", bad: "such as 512M or 5G"},
		{name: "bad size of a file", args: "--disk-file|a:5X|--|ls", bad: "such as 512M or 5G"},
		{name: "size without a file", args: "--disk-file|:5G|--|ls", bad: "use PATH:SIZE"},
		{name: "little memory", args: "--mem|5K|--|ls", bad: "less than a MiB"},
		{name: "share to a relative folder", args: "--share|a:b|--|ls", bad: "GUEST absolute"},
		{name: "time without unit", args: "--timeout|10|--|ls", bad: "parse error"},
		{name: "negative time", args: "--cut-after|-5s|--|ls", bad: "is negative"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var args []string
			if tc.args != "" {
				args = strings.Split(tc.args, "|")
			}
			got, err := parseFlags(args)
			if tc.bad != "" {
				if err == nil || !strings.Contains(err.Error(), tc.bad) {
					t.Errorf("error %v, want %q in it", err, tc.bad)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tc.name == "size" {
				return // a number of bytes is fine; that it is no disk's size is for Start to say
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestUsage_TellsOfEveryFlag(t *testing.T) {
	text := usage()
	for _, name := range []string{
		"disk SIZE", "disk-file PATH[:SIZE]", "mem SIZE", "share HOST[:GUEST]", "timeout TIME", "udev", "raid6", "env NAME=VALUE",
		"backend auto|uml|host", "modules NAME[,NAME...]", "dir FOLDER", "cut-after TIME", "console", "print-packages",
	} {
		if !strings.Contains(text, "\n  --"+name+"\n") {
			t.Errorf("no --%s in\n%s", name, text)
		}
	}
}

func TestRun_WithoutAMachine(t *testing.T) {
	for _, tc := range []struct {
		args           []string
		status         int
		stdout, stderr string // parts
	}{
		{[]string{"--help"}, 0, "Usage: vm", ""},
		{[]string{"--print-packages"}, 0, "user-mode-linux kmod", ""},
		{[]string{"--nonsense"}, statusUsage, "", "see vm --help"},
		{[]string{"--disk", "100B", "--backend", "xen", "--", "ls"}, statusUsage, "", "use auto, uml or host"},
	} {
		var stdout, stderr bytes.Buffer
		if status := run(t.Context(), tc.args, &stdout, &stderr); status != tc.status {
			t.Errorf("%q: status %d, want %d", tc.args, status, tc.status)
		}
		if !strings.Contains(stdout.String(), tc.stdout) || !strings.Contains(stderr.String(), tc.stderr) {
			t.Errorf("%q: stdout %q, stderr %q", tc.args, stdout.String(), stderr.String())
		}
	}
}
