package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const loopControl = "/dev/loop-control"

// loopMajor is the block major number of loop devices.
const loopMajor = 7

// loopDevice is a loop device that this process holds open. The kernel detaches it when
// nobody has it open any more, so it does not outlive this process even when that is
// killed, unless something is stacked on it.
type loopDevice struct {
	file *os.File
	path string
}

// attachLoop makes a block device of f.
func attachLoop(f *os.File) (*loopDevice, error) {
	control, err := os.OpenFile(loopControl, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	// Another process can take the free device first; then there is another free one.
	for {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find a free loop device: %w", err)
		}
		device, err := configureLoop(n, f)
		if !errors.Is(err, unix.EBUSY) {
			return device, err
		}
	}
}

func configureLoop(n int, f *os.File) (*loopDevice, error) {
	path := fmt.Sprintf("/dev/loop%d", n)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		// A container's /dev is often a copy without the later devices.
		err := unix.Mknod(path, unix.S_IFBLK|0o660, int(unix.Mkdev(loopMajor, uint32(n))))
		if err != nil && !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("make %s: %w", path, err)
		}
	}
	device, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	config := unix.LoopConfig{Fd: uint32(f.Fd()), Size: sectorBytes}
	config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR
	copy(config.Info.File_name[:len(config.Info.File_name)-1], f.Name())
	if err := unix.IoctlLoopConfigure(int(device.Fd()), &config); err != nil {
		device.Close()
		return nil, fmt.Errorf("attach %s: %w", path, err)
	}
	return &loopDevice{file: device, path: path}, nil
}

// detachTime is how long others, such as a udevd that looks at the change, may keep the
// device open.
const detachTime = 10 * time.Second

// detach returns once the device is free, or says that it is still in use.
func (l *loopDevice) detach(ctx context.Context) error {
	// The kernel throws away what is only in the device's cache.
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("flush %s: %w", l.path, err)
	}
	clearErr := unix.IoctlSetInt(int(l.file.Fd()), unix.LOOP_CLR_FD, 0)
	if err := l.file.Close(); err != nil {
		return err
	}
	if clearErr != nil && !errors.Is(clearErr, unix.ENXIO) {
		return fmt.Errorf("detach %s: %w", l.path, clearErr)
	}
	// The kernel has no event for it.
	ctx, cancel := context.WithTimeout(ctx, detachTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for l.attached() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is still in use: stop what has it open or mounted; it is detached then", l.path)
		case <-tick.C:
		}
	}
	return nil
}

func (l *loopDevice) attached() bool {
	_, err := os.Stat(filepath.Join("/sys/block", filepath.Base(l.path), "loop/backing_file"))
	return err == nil
}

// holders returns the kernel names of the devices that are stacked on the named one.
func holders(name string) []string {
	entries, err := os.ReadDir(filepath.Join("/sys/class/block", name, "holders"))
	if err != nil {
		return nil
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
	}
	return names
}

// deviceMapperName is empty for a device that is not device mapper's.
func deviceMapperName(name string) string {
	text, err := os.ReadFile(filepath.Join("/sys/class/block", name, "dm/name"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
