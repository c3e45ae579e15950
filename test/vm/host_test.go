package vm

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// needLoop is for tests that need no more of the host than loop devices.
func needLoop(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loop devices need root")
	}
	if _, err := os.Stat(loopControl); err != nil {
		t.Skip("the host has no loop devices: ", err)
	}
}

func tempDisk(t *testing.T, sizeBytes int64) *os.File {
	t.Helper()
	f, err := openDisk(Disk{SizeBytes: sizeBytes}, filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestLoop_AttachWriteDetach(t *testing.T) {
	needLoop(t)
	const size = 3 << 20
	disk := tempDisk(t, size)
	device, err := attachLoop(disk)
	if err != nil {
		t.Fatal(err)
	}
	if end, err := device.file.Seek(0, 2); end != size || err != nil {
		t.Errorf("the device has %d bytes, %v", end, err)
	}
	want := bytes.Repeat([]byte("x"), 4096)
	if _, err := device.file.WriteAt(want, 4096); err != nil {
		t.Fatal(err)
	}
	if err := device.file.Sync(); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := disk.ReadAt(got, 4096); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the file does not have what the device was given: %v", err)
	}
	if !device.attached() {
		t.Error("not seen as attached")
	}
	if err := device.detach(t.Context()); err != nil || device.attached() {
		t.Errorf("detached: %v, still attached: %v", err, device.attached())
	}
}

func TestLoop_DetachedWhenItsOwnerDies(t *testing.T) {
	needLoop(t)
	device, err := attachLoop(tempDisk(t, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	// Closing without detaching is what the end of a process does.
	if err := device.file.Close(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(detachTime); device.attached(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s is still attached", device.path)
		}
	}
}

func TestLoop_DetachOfOneInUse(t *testing.T) {
	needLoop(t)
	device, err := attachLoop(tempDisk(t, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.Open(device.path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := contextThatEndsSoon(t)
	defer cancel()
	if err := device.detach(ctx); err == nil || !strings.Contains(err.Error(), "still in use") {
		t.Errorf("error %v", err)
	}
	// The last one to close it detaches it.
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
}

// runHere runs a command by the host backend, whatever the kernel can do besides loop
// devices.
func runHere(t *testing.T, o Options) outcome {
	t.Helper()
	needLoop(t)
	var stdout, stderr, log bytes.Buffer
	o.Stdout, o.Stderr, o.Log = &stdout, &stderr, &log
	o, err := o.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	m := startWith(t.Context(), o, Host, runHost)
	if err := m.CutPower(); !errors.Is(err, ErrNoPowerCut) {
		t.Errorf("cutting the host's power: %v", err)
	}
	status, err := m.Wait()
	return outcome{status, err, stdout.String(), stderr.String(), log.String()}
}

func TestHost_StatusAndOutput(t *testing.T) {
	runHere(t, Options{Command: script(`echo out; echo err >&2; exit 42`)}).want(t, 42, "out\n", "err\n")
	runHere(t, Options{Command: script(`kill -TERM $$`)}).want(t, 128+15, "", "")
	if r := runHere(t, Options{Command: []string{"no-such-command"}}); r.status != 127 || r.err != nil {
		t.Errorf("a command that does not exist: %+v", r)
	}
	if r := runHere(t, Options{Command: []string{"/etc/passwd"}}); r.status != 126 || r.err != nil {
		t.Errorf("a file that is no program: %+v", r)
	}
}

func TestHost_DisksAndMountsGoAway(t *testing.T) {
	share := t.TempDir()
	r := runHere(t, Options{
		Disks:  []Disk{{SizeBytes: 8 << 20}, {SizeBytes: 16 << 20}},
		Shares: []Share{{Host: share, Guest: "/media"}},
		Command: script(`set -- $VM_DISKS; echo "$VM_BACKEND"; blockdev --getsize64 $1 $2
			mkfs.ext4 -q $2; mount $2 /mnt; echo hello >/mnt/file; echo "$VM_DISKS" >/media/disks`),
	})
	r.want(t, 0, "host\n8388608\n16777216\n", "")
	text, err := os.ReadFile(filepath.Join(share, "disks"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(string(text)) {
		if (&loopDevice{path: path}).attached() {
			t.Errorf("%s is still attached", path)
		}
	}
	for _, path := range []string{"/mnt/file", "/media/disks"} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("the mount at %s reached the host", path)
		}
	}
}

func TestHost_DiskFileIsKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "disk.img")
	runHere(t, Options{Disks: []Disk{{File: file, SizeBytes: 1 << 20}}, Command: script(`printf kept | dd of=$VM_DISKS status=none`)}).
		want(t, 0, "", "")
	runHere(t, Options{Disks: []Disk{{File: file}}, Command: script(`head -c4 $VM_DISKS`)}).want(t, 0, "kept", "")
}

func TestHost_TimeLimit(t *testing.T) {
	r := runHere(t, Options{Command: script(`trap 'echo stopped; exit 3' TERM; echo begun; setsid sleep 1000 & sleep 1000 & wait`),
		Disks: manyDisks(1), Timeout: time.Second})
	if !errors.Is(r.err, ErrTimeLimit) || r.stdout != "begun\nstopped\n" || !strings.Contains(r.log, "left sleep (") {
		t.Errorf("%+v", r)
	}
}

func TestHostProblem_OfThisHost(t *testing.T) {
	facts := probeHost(t.Context(), Options{Shares: []Share{{Guest: "/no/such/folder"}, {Guest: "/"}}})()
	if len(facts.missing) != 1 || facts.missing[0] != "/no/such/folder" {
		t.Errorf("missing folders %q", facts.missing)
	}
	t.Logf("what the host backend lacks here: %q", facts.problem)
}

// envNested tells the tests that they are in a throwaway kernel which stands for a host
// that has device mapper.
const envNested = "VM_TEST_NESTED"

func TestHost_DeviceMapperIsTakenDown(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := runUML(t, Options{
		Command: []string{self, "-test.v", "-test.run=^TestNested_"}, Env: []string{envNested + "=1"}, Disks: manyDisks(1),
	})
	if r.err != nil || r.status != 0 || !strings.Contains(r.stdout, "--- PASS: TestNested_AutoTakesHost") {
		t.Errorf("%v, status %d\n%s%s", r.err, r.status, r.stdout, r.stderr)
	}
}

func needNested(t *testing.T) {
	t.Helper()
	if os.Getenv(envNested) == "" {
		t.Skip("run by TestHost_DeviceMapperIsTakenDown in a throwaway kernel")
	}
}

func TestNested_AutoTakesHost(t *testing.T) {
	needNested(t)
	var stdout, log bytes.Buffer
	m, err := Start(t.Context(), Options{
		Disks: []Disk{{SizeBytes: 64 << 20}, {SizeBytes: 64 << 20}}, Stdout: &stdout, Stderr: &log, Log: &log,
		// A thin volume, mounted, on a pool that is on both: left as they are.
		Command: script(`vgcreate -qq left $VM_DISKS; lvcreate -qq -i2 -L 32M --thinpool pool left; lvcreate -qq -V 16M --thinpool pool -n thin left
			mkfs.ext4 -q /dev/left/thin; mount /dev/left/thin /mnt; echo hello >/mnt/file; ls /dev/mapper | grep -c left; exit 6`),
	})
	if err != nil {
		t.Fatal(err)
	}
	status, err := m.Wait()
	if status != 6 || err != nil || m.Backend() != Host {
		t.Errorf("status %d, %v, backend %s\n%s", status, err, m.Backend(), log.String())
	}
	for _, want := range []string{"the command left left-thin on ", "the command left dmeventd (process "} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log %s", log.String())
		}
	}
	if left, err := filepath.Glob("/sys/block/dm-*"); err != nil || len(left) != 0 {
		t.Errorf("device mapper has %q, %v", left, err)
	}
	if left, err := filepath.Glob("/sys/block/loop*/loop/backing_file"); err != nil || len(left) != 0 {
		t.Errorf("attached are %q, %v", left, err)
	}
}

func TestNested_SuspendedDeviceIsTakenDown(t *testing.T) {
	needNested(t)
	r := runHere(t, Options{
		Disks: manyDisks(1),
		Command: script(`dmsetup create stuck --table "0 2048 linear $VM_DISKS 0"; dmsetup suspend stuck
			setsid dd if=/dev/zero of=/dev/mapper/stuck bs=4k count=1 oflag=direct 2>/dev/null & exit 0`),
	})
	if r.err != nil || r.status != 0 {
		t.Errorf("%+v", r)
	}
	if left, err := filepath.Glob("/sys/block/dm-*"); err != nil || len(left) != 0 {
		t.Errorf("device mapper has %q, %v", left, err)
	}
}

func contextThatEndsSoon(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), 100*time.Millisecond)
}
