package lvm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/csi-local/csi-local/pkg/blockdev"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmtest"
)

func TestDevice_Zero_LeavesNoByte(t *testing.T) {
	r := lvmtest.NewReal(t, disks(), lvm.Options{})
	file := "/dev/shm/zero"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 128*mib); err != nil {
		t.Fatal(err)
	}
	loop := strings.TrimSpace(r.Command(t, "losetup", "--show", "-f", file))
	t.Cleanup(func() {
		if _, err := r.Try("losetup", "-d", loop); err != nil {
			t.Error(err)
		}
		if err := os.Remove(file); err != nil {
			t.Error(err)
		}
	})
	// On the loop device itself before something is on it, or it would be in use.
	for _, device := range []struct{ name, below string }{
		{"no offload", disks()[0]}, {"loop", ""}, {"device mapper on loop", loop},
	} {
		for _, discard := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, discard %v", device.name, discard), func(t *testing.T) {
				path := loop
				if device.below != "" {
					path, _, _ = mapped(t, r, "zeroed", linear(device.below, 0, 100*sectors+8))
				}
				size, err := blockdev.Device{}.SizeBytes(path)
				if err != nil {
					t.Fatal(err)
				}
				fill(t, path, size)
				if onDevice, cached := oldBytes(t, path); onDevice != size || cached != size {
					t.Fatalf("%d and %d bytes to begin with", onDevice, cached)
				}
				var last int64
				err = blockdev.Device{}.Zero(t.Context(), path, discard, func(done int64) {
					if done < last || done > size {
						t.Errorf("progress from %d to %d of %d", last, done, size)
					}
					last = done
				})
				if err != nil || last != size {
					t.Errorf("Zero: %v, progress ended at %d of %d", err, last, size)
				}
				if onDevice, cached := oldBytes(t, path); onDevice != 0 || cached != 0 {
					t.Errorf("%d bytes left on the device, %d in memory", onDevice, cached)
				}
			})
		}
	}
}

func TestDevice_Zero_GivesSpaceBackWhereThatMeansZeros(t *testing.T) {
	r := lvmtest.NewReal(t, disks(), lvm.Options{})
	file := "/dev/shm/backing"
	if err := os.WriteFile(file, bytes.Repeat([]byte{0xA5}, 64*mib), 0o600); err != nil {
		t.Fatal(err)
	}
	loop := strings.TrimSpace(r.Command(t, "losetup", "--show", "-f", file))
	t.Cleanup(func() {
		if _, err := r.Try("losetup", "-d", loop); err != nil {
			t.Error(err)
		}
		if err := os.Remove(file); err != nil {
			t.Error(err)
		}
	})
	if err := (blockdev.Device{}).Zero(t.Context(), loop, true, nil); err != nil {
		t.Fatal(err)
	}
	var stat unix.Stat_t
	if err := unix.Stat(file, &stat); err != nil {
		t.Fatal(err)
	}
	if stat.Blocks*512 > mib {
		t.Errorf("%d bytes are still allocated behind the device", stat.Blocks*512)
	}
}

func TestDevice_Zero_StopsInTime(t *testing.T) {
	r := lvmtest.NewReal(t, disks(), lvm.Options{})
	disk := disks()[0]
	// Each write takes 200 ms, so that there is a report before the end.
	path, _, _ := mapped(t, r, "slow", fmt.Sprintf("0 %d delay %s 0 0 %s 0 200", 300*sectors, disk, disk))
	fill(t, path, 300*mib)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reports := 0
	err := blockdev.Device{}.Zero(ctx, path, false, func(int64) { reports++; cancel() })
	if onDevice, _ := oldBytes(t, path); !errors.Is(err, context.Canceled) || onDevice == 0 || reports != 1 {
		t.Errorf("Zero = %v after %d reports, %d bytes left", err, reports, onDevice)
	}
	if err := (blockdev.Device{}).Zero(t.Context(), filepath.Join("/dev", "missing"), true, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Zero of a missing device = %v", err)
	}
	if _, err := os.Lstat("/dev/missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing device was made: %v", err)
	}
}
