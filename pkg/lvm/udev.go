package lvm

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// LVM waits for udevd by means of a System V semaphore, which udevd's rules
// release. That never happens, and LVM waits for ever, if no udevd runs, or if
// it runs in another IPC namespace, as the host's does for most containers. So
// LVM waits for udevd only where both can be ruled out, and makes the device
// nodes by itself everywhere else.

// udevTimeout bounds the question whether udevd runs.
const udevTimeout = time.Second

// udevWanted decides whether LVM leaves device nodes to udevd.
func udevWanted(opts Options) bool {
	switch opts.Udev {
	case UdevOn:
		return true
	case UdevOff:
		return false
	}
	pid, err := listenerOf(opts.UdevControl)
	return err == nil && sameNamespace(opts.ProcDir, pid)
}

// listenerOf returns the process that made the socket at path (udevd, or the
// init that made the socket for it). The error says that nobody listens.
func listenerOf(path string) (pid int, err error) {
	conn, err := (&net.Dialer{Timeout: udevTimeout}).Dial("unixpacket", path)
	if err != nil {
		return 0, err
	}
	// Nothing was sent, so nothing can be lost.
	defer func() { _ = conn.Close() }()
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, errors.New("not a Unix socket")
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	var credentials *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		credentials, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, credErr); err != nil {
		return 0, err
	}
	return int(credentials.Pid), nil
}

// sameNamespace tells whether the process shares our IPC namespace. A process
// that cannot be seen (0, in another PID namespace) is taken for a stranger.
func sameNamespace(procDir string, pid int) bool {
	if pid <= 0 {
		return false
	}
	ours, err := os.Readlink(filepath.Join(procDir, "self", "ns", "ipc"))
	if err != nil {
		return false
	}
	theirs, err := os.Readlink(filepath.Join(procDir, strconv.Itoa(pid), "ns", "ipc"))
	return err == nil && ours == theirs
}
