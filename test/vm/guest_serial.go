package vm

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The serial lines of the throwaway kernel, which are pipes on the host: they are live,
// they keep output apart, and they lose nothing when the kernel is killed.
const (
	serialStdout = iota
	serialStderr
	serialControl
	serialLines
)

// openSerial opens a line that passes every byte as it is. The descriptor blocks, and so
// stays out of Go's poller and of the epoll_wait that fails once in a while.
func openSerial(n int) (*os.File, error) {
	path := fmt.Sprintf("/dev/ttyS%d", n)
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	term, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err == nil {
		term.Oflag &^= unix.OPOST
		term.Lflag &^= unix.ECHO | unix.ICANON | unix.ISIG
		err = unix.IoctlSetTermios(fd, unix.TCSETS, term)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("set up %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// drainSerial returns when the host has everything that was written.
func drainSerial(f *os.File) {
	// TCSBRK with an argument is tcdrain.
	_ = unix.IoctlSetInt(int(f.Fd()), unix.TCSBRK, 1)
}

// pump copies from a pipe to a serial line. The command gets the pipe, because many
// programs behave otherwise on a terminal.
type pump struct {
	in   *os.File // the command's end; closed by whoever starts it
	to   *os.File
	done chan struct{}
}

func newPump(to *os.File) (*pump, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	p := &pump{in: os.NewFile(uintptr(ends[1]), "pipe"), to: to, done: make(chan struct{})}
	go p.copy(ends[0])
	return p, nil
}

func (p *pump) copy(from int) {
	defer close(p.done)
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(from, buf)
		if err == unix.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			return
		}
		if _, err := p.to.Write(buf[:n]); err != nil && err != io.ErrShortWrite {
			return
		}
	}
}

func (p *pump) drain(deadline <-chan time.Time) {
	select {
	case <-p.done:
	case <-deadline:
	}
	drainSerial(p.to)
}
