package lvm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/csi-local/csi-local/pkg/blockdev"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmtest"
)

// mapped makes a device-mapper device and returns its path and number.
func mapped(t *testing.T, r *lvmtest.Real, name string, table ...string) (path string, major, minor int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "table")
	if err := os.WriteFile(file, []byte(strings.Join(table, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Command(t, "dmsetup", "create", name, file)
	t.Cleanup(func() {
		if _, err := r.Try("dmsetup", "remove", "--force", name); err != nil {
			t.Error(err)
		}
	})
	path = "/dev/mapper/" + name
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	rdev := info.Sys().(*syscall.Stat_t).Rdev
	return path, int(unix.Major(rdev)), int(unix.Minor(rdev))
}

const sectors = 1 << 20 / 512 // of a MiB

func linear(disk string, start, length int) string {
	return fmt.Sprintf("%d %d linear %s %d", start, length, disk, start)
}

func fill(t *testing.T, path string, size int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	pattern := bytes.Repeat([]byte{0xA5}, mib)
	for offset := int64(0); offset < size; offset += mib {
		if _, err := f.WriteAt(pattern[:min(mib, size-offset)], offset); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// oldBytes counts what fill left, as the device returns it and as a reader through
// the page cache sees it.
func oldBytes(t *testing.T, path string) (onDevice, cached int64) {
	t.Helper()
	for _, flags := range []int{os.O_RDONLY, os.O_RDONLY | unix.O_DIRECT} {
		f, err := os.OpenFile(path, flags, 0)
		if err != nil {
			t.Fatal(err)
		}
		// A mapping begins at a page, which is aligned enough for O_DIRECT.
		buffer, err := unix.Mmap(-1, 0, mib, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			t.Fatal(err)
		}
		cached, onDevice = onDevice, 0
		for {
			n, err := f.Read(buffer)
			if n == 0 {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			onDevice += int64(bytes.Count(buffer[:n], []byte{0xA5}))
		}
		if err := errors.Join(unix.Munmap(buffer), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return onDevice, cached
}

func TestDevice_Check_OnBlockDevices(t *testing.T) {
	r := lvmtest.NewReal(t, disks(), lvm.Options{})
	path, major, minor := mapped(t, r, "one", linear(disks()[0], 0, 8*sectors))
	other, _, otherMinor := mapped(t, r, "other", linear(disks()[1], 0, 8*sectors))
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	var d blockdev.Device
	for _, p := range []string{path, link} {
		if err := d.Check(p, major, minor); err != nil {
			t.Error(err)
		}
	}
	if err := d.Check(other, major, minor); !errors.Is(err, blockdev.ErrWrongDevice) || !strings.Contains(err.Error(), fmt.Sprint(otherMinor)) {
		t.Errorf("another device: %v", err)
	}
	if size, err := d.SizeBytes(link); err != nil || size != 8*mib {
		t.Errorf("size %d, %v", size, err)
	}
}

func TestDevice_OpenCount_CountsFilesAndMounts(t *testing.T) {
	r := lvmtest.NewReal(t, disks(), lvm.Options{})
	path, major, minor := mapped(t, r, "counted", linear(disks()[0], 0, 64*sectors))
	var d blockdev.Device
	count := func(want int) {
		t.Helper()
		if got, err := d.OpenCount(major, minor); err != nil || got != want {
			t.Errorf("open count %d, %v; want %d", got, err, want)
		}
	}
	count(0)
	lv := lvm.LogicalVolume{Path: path}
	first, second := r.Hold(t, lv), r.Hold(t, lv)
	count(2)
	first()
	count(1)
	second()
	count(0)
	unmount := r.Mount(t, lv)
	count(1)
	unmount()
	count(0)
	_, upperMajor, upperMinor := mapped(t, r, "upper", fmt.Sprintf("0 %d linear %s 0", 8*sectors, path))
	count(1)
	status, err := d.Status(upperMajor, upperMinor)
	if diff := cmp.Diff(blockdev.Status{Name: "upper"}, status); err != nil || diff != "" {
		t.Errorf("status: %v -want +got\n%s", err, diff)
	}
	info, err := os.Stat(disks()[0])
	if err != nil {
		t.Fatal(err)
	}
	disk := info.Sys().(*syscall.Stat_t).Rdev
	for _, number := range [][2]int{{major, 9999}, {int(unix.Major(disk)), int(unix.Minor(disk))}} {
		if _, err := d.OpenCount(number[0], number[1]); !errors.Is(err, blockdev.ErrNoDevice) {
			t.Errorf("open count of %v: %v", number, err)
		}
	}
}

func TestDevice_Status_OfASuspendedDevice(t *testing.T) {
	r := lvmtest.NewReal(t, disks(), lvm.Options{})
	path, major, minor := mapped(t, r, "asleep", linear(disks()[0], 0, 8*sectors))
	release := r.Hold(t, lvm.LogicalVolume{Path: path})
	defer release()
	r.Command(t, "dmsetup", "suspend", "asleep")
	t.Cleanup(func() {
		if _, err := r.Try("dmsetup", "resume", "asleep"); err != nil {
			t.Error(err)
		}
	})
	status, err := blockdev.Device{}.Status(major, minor)
	if want := (blockdev.Status{Name: "asleep", Suspended: true, OpenCount: 1}); err != nil || status != want {
		t.Errorf("suspended: %+v, %v", status, err)
	}
	r.Command(t, "dmsetup", "resume", "asleep")
	if status, err = (blockdev.Device{}).Status(major, minor); err != nil || status.Suspended {
		t.Errorf("resumed: %+v, %v", status, err)
	}
}

func TestDevice_FindsWhatCannotBeReadOrWritten(t *testing.T) {
	r := lvmtest.NewReal(t, disks(), lvm.Options{})
	disk := disks()[0]
	fill(t, disk, 40*mib)
	for name, table := range map[string][]string{
		"nothing-works": {fmt.Sprintf("0 %d error", 32*sectors)},
		"bad-start":     {fmt.Sprintf("0 %d error", sectors), linear(disk, sectors, 31*sectors)},
		"bad-end":       {linear(disk, 0, 31*sectors), fmt.Sprintf("%d %d error", 31*sectors, sectors)},
		"bad-last":      {linear(disk, 0, 32*sectors-8), fmt.Sprintf("%d 8 error", 32*sectors-8)},
	} {
		t.Run(name, func(t *testing.T) {
			path, _, _ := mapped(t, r, name, table...)
			var d blockdev.Device
			for what, err := range map[string]error{
				"ReadEnds": d.ReadEnds(t.Context(), path), "ClearEnds": d.ClearEnds(t.Context(), path),
				"Zero": d.Zero(t.Context(), path, false, nil), "Zero with discard": d.Zero(t.Context(), path, true, nil),
			} {
				if !errors.Is(err, unix.EIO) {
					t.Errorf("%s = %v, want an input/output error", what, err)
				}
			}
		})
	}
}

func TestDevice_ReadEnds_IsNotFooledByThePageCache(t *testing.T) {
	r := lvmtest.NewReal(t, disks(), lvm.Options{})
	path, _, _ := mapped(t, r, "turned-bad", linear(disks()[0], 0, 8*sectors))
	// A reader keeps the device open, so that its pages stay in memory.
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.ReadAt(make([]byte, mib), 0); err != nil {
		t.Fatal(err)
	}
	table := filepath.Join(t.TempDir(), "table")
	if err := os.WriteFile(table, []byte(fmt.Sprintf("0 %d error\n", 8*sectors)), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Command(t, "dmsetup", "suspend", "turned-bad")
	r.Command(t, "dmsetup", "load", "turned-bad", table)
	r.Command(t, "dmsetup", "resume", "turned-bad")
	if _, err := f.ReadAt(make([]byte, mib), 0); err != nil {
		t.Errorf("the page cache forgot what it had: %v", err)
	}
	if err := (blockdev.Device{}).ReadEnds(t.Context(), path); !errors.Is(err, unix.EIO) {
		t.Errorf("ReadEnds = %v, want an input/output error", err)
	}
}

func TestDevice_WritesToNothingThatIsInUse(t *testing.T) {
	r := lvmtest.NewReal(t, disks(), lvm.Options{})
	mountedPath, _, _ := mapped(t, r, "mounted", linear(disks()[0], 0, 64*sectors))
	dir := t.TempDir()
	r.Command(t, "mkfs.ext4", "-q", mountedPath)
	r.Command(t, "mount", mountedPath, dir)
	t.Cleanup(func() {
		if _, err := r.Try("umount", dir); err != nil {
			t.Error(err)
		}
	})
	kept := filepath.Join(dir, "kept")
	if err := os.WriteFile(kept, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	below, _, _ := mapped(t, r, "below", linear(disks()[1], 0, 64*sectors))
	mapped(t, r, "above", fmt.Sprintf("0 %d linear %s 0", 8*sectors, below))
	var d blockdev.Device
	for name, path := range map[string]string{"mounted": mountedPath, "part of another device": below} {
		for what, err := range map[string]error{
			"ClearEnds": d.ClearEnds(t.Context(), path), "Zero": d.Zero(t.Context(), path, false, nil),
			"Zero with discard": d.Zero(t.Context(), path, true, nil),
		} {
			if !errors.Is(err, blockdev.ErrBusy) {
				t.Errorf("%s of a device that is %s = %v", what, name, err)
			}
		}
		if err := d.ReadEnds(t.Context(), path); err != nil {
			t.Errorf("ReadEnds of a device that is %s = %v", name, err)
		}
	}
	r.Command(t, "umount", dir)
	r.Command(t, "e2fsck", "-f", "-n", mountedPath)
	r.Command(t, "mount", mountedPath, dir)
	if content, err := os.ReadFile(kept); err != nil || string(content) != "data" {
		t.Errorf("kept file: %q, %v", content, err)
	}
}

func TestDevice_ClearEnds_LeavesNoSignature(t *testing.T) {
	r := lvmtest.NewReal(t, disks(), lvm.Options{})
	path, _, _ := mapped(t, r, "signed", linear(disks()[0], 0, 400*sectors))
	for name, command := range map[string][]string{
		"ext4":  {"mkfs.ext4", "-q", "-F", path},
		"xfs":   {"mkfs.xfs", "-q", "-f", path},
		"btrfs": {"mkfs.btrfs", "-q", "-f", path},
		"swap":  {"mkswap", path},
		"LVM":   {"lvm", "pvcreate", "-y", "-ff", "--config", `devices/global_filter=["a|.*|"]`, path},
		"MD":    {"sh", "-c", "mdadm --create --quiet --run --force --metadata=1.0 --level=1 --raid-devices=1 /dev/md9 " + path + " && mdadm --stop /dev/md9"},
		"LUKS2": {"sh", "-c", "echo secret | cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 " + path + " -"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := r.Try(command[0], command[1:]...); err != nil {
				t.Fatal(err)
			}
			if probe := r.Command(t, "blkid", "-p", path); !strings.Contains(probe, "TYPE=") {
				t.Fatalf("no signature to clear: %q", probe)
			}
			if err := (blockdev.Device{}).ClearEnds(t.Context(), path); err != nil {
				t.Fatal(err)
			}
			if probe, err := r.Try("blkid", "-p", path); err == nil {
				t.Errorf("after ClearEnds: %q", probe)
			}
			if left := r.Command(t, "wipefs", "--no-act", path); left != "" {
				t.Errorf("after ClearEnds: %q", left)
			}
		})
	}
}
