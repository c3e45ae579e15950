package blockdev

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

const defaultControlPath = "/dev/mapper/control"

// Status is what device mapper says of one device.
type Status struct {
	// OpenCount is the number of openers, mounts and devices stacked on it included.
	OpenCount int
	// Suspended: input and output wait until the device is resumed.
	Suspended bool
	// ReadOnly: the device refuses writes.
	ReadOnly bool
	// Name is device mapper's name, in which LVM doubles the hyphens of its own names.
	Name string
	// UUID is device mapper's identifier; LVM's begin with "LVM-".
	UUID string
}

// OpenCount is the kernel's count of openers of a device-mapper device. A program
// that looks at the device for a moment, such as udevd's probe, counts as well.
// The error matches ErrNoDevice if there is no such device-mapper device.
func (d Device) OpenCount(major, minor int) (int, error) {
	status, err := d.Status(major, minor)
	return status.OpenCount, err
}

// Status asks device mapper about the device of this number, without opening it, so
// it answers even when the device is suspended. It needs CAP_SYS_ADMIN. The error
// matches ErrNoDevice if there is no such device-mapper device.
func (d Device) Status(major, minor int) (Status, error) {
	path := d.ControlPath
	if path == "" {
		path = defaultControlPath
	}
	control, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return Status{}, fmt.Errorf("open device mapper's control node: %w", err)
	}
	// The interface's major version is 4 since Linux 2.6; a lower minor version
	// than the kernel's is what every program sends.
	request := unix.DmIoctl{
		Version:   [3]uint32{4, 0, 0},
		Data_size: uint32(unsafe.Sizeof(unix.DmIoctl{})),
		Dev:       unix.Mkdev(uint32(major), uint32(minor)),
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, control.Fd(), unix.DM_DEV_STATUS, uintptr(unsafe.Pointer(&request)))
	runtime.KeepAlive(control)
	closeErr := control.Close()
	switch {
	case errno == unix.ENXIO:
		return Status{}, fmt.Errorf("%w: %d:%d", ErrNoDevice, major, minor)
	case errno != 0:
		return Status{}, fmt.Errorf("device mapper status of %d:%d: %w", major, minor, errno)
	case closeErr != nil:
		return Status{}, errors.Join(errors.New("close device mapper's control node"), closeErr)
	}
	return Status{
		OpenCount: int(request.Open_count),
		Suspended: request.Flags&unix.DM_SUSPEND_FLAG != 0,
		ReadOnly:  request.Flags&unix.DM_READONLY_FLAG != 0,
		Name:      untilZero(request.Name[:]),
		UUID:      untilZero(request.Uuid[:]),
	}, nil
}

func untilZero(b []byte) string {
	text, _, _ := bytes.Cut(b, []byte{0})
	return string(text)
}
