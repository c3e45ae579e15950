package vm

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestKernelArgs(t *testing.T) {
	args := kernelArgs("/tmp/vm-1", Options{MemoryMiB: 512, Disks: manyDisks(MaxDisks)})
	for _, want := range []string{
		"mem=512M", "rootfstype=hostfs", "ro", "init=/tmp/vm-1/init", "VM_INIT=/tmp/vm-1", "uml_dir=/tmp/vm-1/",
		"ssl0=null,fd:3", "ssl1=null,fd:4", "ssl2=null,fd:5",
		"ubdb=/proc/self/fd/6", "ubdp=/proc/self/fd/20", "initcall_blacklist=raid6_select_algo",
	} {
		if !slices.Contains(args, want) {
			t.Errorf("no %q in %q", want, args)
		}
	}
	// The kernel's own limit on its command line, with room for what it adds itself.
	if n := len(strings.Join(args, " ")); n > 2048 {
		t.Errorf("the command line has %d bytes", n)
	}
	args = kernelArgs("/tmp/vm-1", Options{MemoryMiB: 512, RAID6: true})
	if text := strings.Join(args, " "); strings.Contains(text, "ubd") || strings.Contains(text, "raid6") {
		t.Errorf("with RAID 6 and no disks: %s", text)
	}
}

// oddArguments are what quoting gets wrong.
var oddArguments = []string{
	"", " ", "a b", "'", `"`, `\`, `\n`, "two\nlines", "\t", "$HOME", "`id`", "$(id)", "*", "~", "--", "-x", "a=b", "#", ";", "&", "|",
	"é", "\xff\xfe not UTF-8", "\x01\x1b[31m", strings.Repeat("long", 20000),
}

func TestSpec_KeepsEveryByte(t *testing.T) {
	dir := t.TempDir()
	want := newSpec(Options{
		Command: oddArguments, Dir: "/a b\xff", Udev: true, Modules: []string{"dm-dust"},
		Env: []string{"ODD=a\n'\xff"}, Shares: []Share{{Host: "/h,o:\xff", Guest: "/g"}}, Disks: manyDisks(2),
	})
	if err := want.write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := readSpec(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, wrote %+v", got, want)
	}
	if !slices.Equal(stringsOf(got.Args), oddArguments) || len(got.Seed) == 0 || bytes.Equal(got.Seed, make([]byte, 64)) {
		t.Errorf("arguments %q, seed %x", got.Args, got.Seed)
	}
	info, err := os.Stat(filepath.Join(dir, specName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others can read the environment: %v, %v", info.Mode(), err)
	}
}

func TestReadSpec_Broken(t *testing.T) {
	dir := t.TempDir()
	if _, err := readSpec(dir); err == nil {
		t.Error("an absent file is no error")
	}
	if err := os.WriteFile(filepath.Join(dir, specName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readSpec(dir); err == nil {
		t.Error("a broken file is no error")
	}
}

func TestRunFolder_RefusesWhatTheKernelCannotTake(t *testing.T) {
	odd := filepath.Join(t.TempDir(), "a b")
	if err := os.Mkdir(odd, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", odd)
	if _, err := runFolder(); err == nil || !strings.Contains(err.Error(), "set TMPDIR") {
		t.Errorf("error %v", err)
	}
	if left, _ := os.ReadDir(odd); len(left) != 0 {
		t.Errorf("left %v behind", left)
	}
}

func TestCommandEnv(t *testing.T) {
	env := commandEnv([]string{"PATH=/a:/usr/bin", "HOME=/h", "DM_DISABLE_UDEV=0", "VM_BACKEND=x"},
		[]string{"HOME=/other", "NEW=1=2"}, UML, []string{"/dev/ubdb", "/dev/ubdc"}, false)
	want := []string{
		"PATH=/a:/usr/bin:/usr/sbin:/sbin:/bin", "HOME=/other", "VM_BACKEND=uml", "VM_UDEV=0", "DM_DISABLE_UDEV=1", "NEW=1=2",
		"VM_DISKS=/dev/ubdb /dev/ubdc",
	}
	if !slices.Equal(env, want) {
		t.Errorf("environment\n%q, want\n%q", env, want)
	}
	env = commandEnv([]string{"DM_DISABLE_UDEV=1"}, nil, Host, nil, true)
	if slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "DM_DISABLE_UDEV") }) ||
		!slices.Contains(env, "VM_UDEV=1") || !slices.Contains(env, "PATH=/usr/sbin:/usr/bin:/sbin:/bin") {
		t.Errorf("with udev: %q", env)
	}
}

func TestKernelEnv_MemoryBeyondShm(t *testing.T) {
	small := kernelEnv([]string{"TMPDIR=/x", "TMP=/y", "A=1"}, "/run-dir", 1)
	if !slices.Equal(small, []string{"A=1"}) && !slices.Equal(small, []string{"A=1", "TMPDIR=/run-dir"}) {
		t.Errorf("environment %q", small)
	}
	if huge := kernelEnv([]string{"A=1"}, "/run-dir", 1<<40); !slices.Equal(huge, []string{"A=1", "TMPDIR=/run-dir"}) {
		t.Errorf("environment %q", huge)
	}
}

func TestFindCommand(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"a/tool": 0o755, "b/tool": 0o644, "b/other": 0o644} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"PATH=b:" + filepath.Join(dir, "a")}
	for _, tc := range []struct {
		name, want string
		err        error
	}{
		{name: "tool", want: "a/tool"},
		{name: "a/tool", want: "a/tool"},
		{name: "./a/tool", want: "a/tool"},
		{name: filepath.Join(dir, "a/tool"), want: "a/tool"},
		{name: "other", err: os.ErrPermission},
		{name: "b/tool", err: os.ErrPermission},
		{name: "absent", err: exec.ErrNotFound},
		{name: "c/absent", err: exec.ErrNotFound},
	} {
		got, err := findCommand(tc.name, dir, env)
		if tc.want != "" {
			tc.want = filepath.Join(dir, tc.want)
		}
		if got != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("findCommand(%q) = %q, %v; want %q, %v", tc.name, got, err, tc.want, tc.err)
		}
	}
}
