package blockdev

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Device works on block devices. Its zero value is ready for use and takes block
// devices only. It has no state: all methods may be called at any time from any
// goroutine.
type Device struct {
	// RegularFiles lets the methods that take a path work on regular files too,
	// for tests; holes in them count as zeros.
	RegularFiles bool
	// ControlPath is device mapper's control node; "/dev/mapper/control" if empty.
	ControlPath string
}

// Check tells whether path, symlinks resolved, is a block device with this number.
// The error matches fs.ErrNotExist, ErrNotBlockDevice or ErrWrongDevice and says
// what was found.
func (d Device) Check(path string, major, minor int) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("check block device: %w", err)
	}
	if !isBlock(info.Mode()) {
		return fmt.Errorf("%w: %s is a %s", ErrNotBlockDevice, path, kindOf(info.Mode()))
	}
	gotMajor, gotMinor, err := numberOf(info)
	if err != nil {
		return err
	}
	if gotMajor != major || gotMinor != minor {
		return fmt.Errorf("%w: %s is %d:%d, want %d:%d", ErrWrongDevice, path, gotMajor, gotMinor, major, minor)
	}
	return nil
}

// SizeBytes is the size of the device (with RegularFiles: or file) in bytes.
func (d Device) SizeBytes(path string) (int64, error) {
	f, err := d.open(path, os.O_RDONLY)
	if err != nil {
		return 0, err
	}
	size, err := sizeOf(f)
	return size, errors.Join(err, f.Close())
}

// open opens what is at path if it is of a kind that d may touch. For writing, a
// block device is claimed: ErrBusy if somebody else has claimed it.
func (d Device) open(path string, flags int) (*os.File, error) {
	// Only after this may the path be opened: opening a pipe or a character
	// device can block or have effects.
	before, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open block device: %w", err)
	}
	switch {
	case isBlock(before.Mode()):
		if flags&(os.O_WRONLY|os.O_RDWR) != 0 {
			flags |= os.O_EXCL
		}
	case d.RegularFiles && before.Mode().IsRegular():
	default:
		return nil, fmt.Errorf("%w: %s is a %s", ErrNotBlockDevice, path, kindOf(before.Mode()))
	}
	f, err := os.OpenFile(path, flags, 0)
	if errors.Is(err, unix.EBUSY) {
		return nil, fmt.Errorf("%w: %s: %w", ErrBusy, path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open block device: %w", err)
	}
	after, err := f.Stat()
	if err == nil && !sameDevice(before, after) {
		err = fmt.Errorf("%w: %s changed while it was opened", ErrWrongDevice, path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// sizeOf is lseek(2) to the end, which works for block devices and files alike.
func sizeOf(f *os.File) (int64, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, fmt.Errorf("size of %s: %w", f.Name(), err)
	}
	return size, nil
}

func sameDevice(a, b fs.FileInfo) bool {
	if !isBlock(a.Mode()) {
		return os.SameFile(a, b)
	}
	aMajor, aMinor, aErr := numberOf(a)
	bMajor, bMinor, bErr := numberOf(b)
	return aErr == nil && bErr == nil && isBlock(b.Mode()) && aMajor == bMajor && aMinor == bMinor
}

func numberOf(info fs.FileInfo) (major, minor int, err error) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, fmt.Errorf("device number of %s: %w", info.Name(), errors.ErrUnsupported)
	}
	rdev := stat.Rdev
	return int(unix.Major(rdev)), int(unix.Minor(rdev)), nil
}

func isBlock(mode fs.FileMode) bool {
	return mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0
}

// kindOf names a file's type in words.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "regular file"
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeCharDevice != 0:
		return "character device"
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	default:
		return "file of mode " + mode.String()
	}
}
