package blockdev

import "errors"

var (
	// ErrNotBlockDevice: the path is a file of another type. A path that does not
	// exist is fs.ErrNotExist instead.
	ErrNotBlockDevice = errors.New("not a block device")
	// ErrWrongDevice: the path is a block device with another number than expected.
	ErrWrongDevice = errors.New("another block device than expected")
	// ErrBusy: the device is mounted, is swap, or is part of another device, and
	// was not written to.
	ErrBusy = errors.New("block device is in use")
	// ErrNoDevice: device mapper has no device of this number.
	ErrNoDevice = errors.New("no such device-mapper device")
)
