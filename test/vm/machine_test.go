package vm

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMachine_HostStaysClean(t *testing.T) {
	dir, share := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kept"), []byte("host"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := runUML(t, Options{
		Dir: dir, Shares: []Share{{Host: share, Guest: "/deep/er/results"}},
		Command: script(`echo guest >kept; echo guest >new; echo guest >/etc/vm-test; echo guest >/tmp/vm-test; rm /etc/hostname
			mkdir /deep/er/results/sub; echo result >/deep/er/results/sub/file; cat kept`),
	})
	r.want(t, 0, "guest\n", "")
	if text, err := os.ReadFile(filepath.Join(dir, "kept")); string(text) != "host" {
		t.Errorf("the host's file holds %q, %v", text, err)
	}
	for _, path := range []string{filepath.Join(dir, "new"), "/etc/vm-test", "/tmp/vm-test", "/deep"} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s reached the host", path)
		}
	}
	if text, err := os.ReadFile(filepath.Join(share, "sub/file")); string(text) != "result\n" {
		t.Errorf("the share holds %q, %v", text, err)
	}
}

func TestMachine_PowerCutKeepsWhatWasSynced(t *testing.T) {
	needUML(t)
	temporary, disk := t.TempDir(), filepath.Join(t.TempDir(), "disk.img")
	t.Setenv("TMPDIR", temporary)
	ready := make(chan struct{})
	m, err := Start(t.Context(), Options{
		Command: script(`mkfs.ext4 -q $VM_DISKS; mount $VM_DISKS /mnt
			echo synced >/mnt/synced; sync /mnt/synced /mnt; echo lost >/mnt/lost; echo ready; sleep 1000`),
		Disks: []Disk{{File: disk, SizeBytes: 64 << 20}}, PowerCut: true, Log: &bytes.Buffer{},
		Stdout: &onText{text: "ready", do: func() { close(ready) }}, Timeout: 3 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	if m.Backend() != UML {
		t.Fatalf("backend %s cannot cut the power", m.Backend())
	}
	select {
	case <-ready:
	case <-t.Context().Done():
	}
	if err := m.CutPower(); err != nil {
		t.Fatal(err)
	}
	if status, err := m.Wait(); ExitStatus(status, err) != StatusPowerCut {
		t.Errorf("waited: %d, %v", status, err)
	}
	checkNothingLeft(t, temporary)
	runUML(t, Options{
		Command: script(`mount $VM_DISKS /mnt; cat /mnt/synced; [ ! -s /mnt/lost ]`), Disks: []Disk{{File: disk}},
	}).want(t, 0, "synced\n", "")
}

func TestMachine_Udev(t *testing.T) {
	r := runUML(t, Options{
		Udev: true, Disks: manyDisks(1),
		Command: script(`echo "$VM_UDEV,${DM_DISABLE_UDEV-unset}"; vgcreate -qq vg $VM_DISKS; lvcreate -qq -L 8M -n lv vg
			readlink /dev/mapper/vg-lv; udevadm info --query=property --property=DM_LV_NAME /dev/vg/lv
			lvremove -qqy vg/lv; ls /dev/mapper`),
	})
	if want := "1,unset\n../dm-0\nDM_LV_NAME=lv\ncontrol\n"; r.err != nil || r.status != 0 || r.stdout != want {
		t.Errorf("%+v, want stdout %q", r, want)
	}
}

// What the project's own tests need of device mapper, on as many disks as there can be.
func TestMachine_LVM(t *testing.T) {
	r := runUML(t, Options{
		Disks: manyDisks(MaxDisks),
		Command: script(`set -- $VM_DISKS; echo $#; ls $VM_DISKS | wc -l; vgcreate -qq vg $1 $2 $3 ${15}
			lvcreate -qq -L 32M --thinpool pool vg; lvcreate -qq -V 16M --thinpool pool -n thin vg; lvcreate -qq -s -n snap vg/thin
			lvcreate -qq --type raid1 -m1 -L 16M -n mirror vg; lvcreate -qq -i 4 -L 16M -n stripes vg
			mkfs.ext4 -q /dev/vg/thin; mount /dev/vg/thin /mnt; findmnt -no FSTYPE /mnt
			lvs --noheadings -o lv_name,segtype vg | tr -s ' ' | sed 's/ $//'`),
	})
	want := "15\n15\next4\n mirror raid1\n pool thin-pool\n snap thin\n stripes striped\n thin thin\n"
	if r.err != nil || r.status != 0 || r.stdout != want {
		t.Errorf("%+v, want stdout %q", r, want)
	}
}

// The kernel loads what it needs by itself, and what is asked for beforehand.
func TestMachine_Modules(t *testing.T) {
	r := runUML(t, Options{
		Modules: []string{"dm-dust"}, Disks: manyDisks(1),
		Command: script(`grep -c ^dm_dust /proc/modules; echo key >/tmp/key
			cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 $VM_DISKS /tmp/key
			cryptsetup open --key-file /tmp/key $VM_DISKS plain; dmsetup table plain | cut -d' ' -f3`),
	})
	r.want(t, 0, "1\ncrypt\n", "")
}

func TestMain_RoundTrip(t *testing.T) {
	needUML(t)
	profile := filepath.Join(t.TempDir(), "c.out")
	for _, tc := range []struct {
		name   string
		flags  []string
		status int
		shows  []string
	}{
		{"passes", []string{"-v", "-run=TestPasses", "-coverprofile=" + profile},
			0, []string{"=== RUN   TestPasses\n", "ran in ", "--- PASS: TestPasses", "coverage: 100.0%", "\nok "}},
		{"fails", []string{"-run=TestFails"}, 1, []string{"--- FAIL: TestFails", "fails on purpose", "\nFAIL"}},
		{"hangs", []string{"-run=TestHangs", "-timeout=2s"}, 1, []string{"panic: test timed out after 2s", "running tests:\n\t\tTestHangs"}},
		{"lists", []string{"-list=."}, 0, []string{"TestPasses\nTestFails\nTestHangs\n"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := append([]string{"test", "-cover", "-covermode=atomic"}, tc.flags...)
			out, err := exec.CommandContext(t.Context(), "go", append(args, "./testdata/roundtrip")...).CombinedOutput()
			if status := exitCode(err); status != tc.status {
				t.Errorf("go test: %v\n%s", err, out)
			}
			for _, want := range tc.shows {
				if !strings.Contains(string(out), want) {
					t.Errorf("%q is not in\n%s", want, out)
				}
			}
			if booted := strings.Contains(string(out), "vm: backend "); booted == (tc.name == "lists") {
				t.Errorf("told of the backend: %v\n%s", booted, out)
			}
		})
	}
	if text, err := os.ReadFile(profile); !strings.Contains(string(text), "mode: atomic") {
		t.Errorf("the coverage profile holds %q, %v", text, err)
	}
}

func exitCode(err error) int {
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}
