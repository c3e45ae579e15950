package vm

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ioctlPointer passes arg, which has the layout the request defines.
func ioctlPointer(fd int, request uint, arg []byte) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(unsafe.Pointer(&arg[0])))
	runtime.KeepAlive(arg)
	if errno != 0 {
		return errno
	}
	return nil
}
