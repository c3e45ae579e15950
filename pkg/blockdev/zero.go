package blockdev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// zeroChunkBytes bounds one system call, which cannot be interrupted: half a
	// second on a disk that writes 128 MiB/s.
	zeroChunkBytes = 64 * mib
	// progressInterval is the least time between two calls of progress.
	progressInterval = 300 * time.Millisecond
)

// Zero makes every byte of the device read as zero and makes that durable. With
// discard the blocks are given back to the device as far as it promises that they
// read as zeros then; everything else is written, by the device's own command for
// writing zeros where it has one. On a thin volume, writing allocates every block.
//
// progress (may be nil) is called from the same goroutine with the bytes done: a few
// times a second, and at the end. When ctx ends, Zero returns its error soon after
// (within the time that 64 MiB take); what was done until then stays done.
// ErrBusy if the device is claimed.
func (d Device) Zero(ctx context.Context, path string, discard bool, progress func(doneBytes int64)) error {
	f, err := d.open(path, os.O_WRONLY)
	if err != nil {
		return err
	}
	return errors.Join(zero(ctx, f, discard, progress), f.Close())
}

func zero(ctx context.Context, f *os.File, discard bool, progress func(doneBytes int64)) error {
	size, err := sizeOf(f)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("zero %s: %w", f.Name(), err)
	}
	z := zeroer{file: f}
	if discard || info.Mode().IsRegular() {
		z.modes = append(z.modes, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE)
	}
	z.modes = append(z.modes, unix.FALLOC_FL_ZERO_RANGE|unix.FALLOC_FL_KEEP_SIZE)
	reported := time.Now()
	for done := int64(0); done < size; {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("zero %s: stopped at %d of %d bytes: %w", f.Name(), done, size, err)
		}
		chunk := extent{done, min(zeroChunkBytes, size-done)}
		if err := z.zero(chunk); err != nil {
			return err
		}
		done += chunk.length
		if progress != nil && done < size && time.Since(reported) >= progressInterval {
			reported = time.Now()
			progress(done)
		}
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("zero %s: %w", f.Name(), err)
	}
	if progress != nil {
		progress(size)
	}
	return nil
}

// zeroer zeroes pieces of one file by the best way that works for it.
type zeroer struct {
	file *os.File
	// modes are the modes of fallocate(2) still worth a try, best first.
	modes []uint32
}

func (z *zeroer) zero(piece extent) error {
	for len(z.modes) > 0 {
		err := fallocate(z.file, z.modes[0], piece)
		if err == nil {
			return nil
		}
		// Devices that claim the command and then refuse it answer in many ways
		// (EOPNOTSUPP, EREMOTEIO, EIO), so whatever a hole met, writing is tried.
		// Of writing, the kernel has then tried every way itself, unless it is a
		// file system that does not know the call.
		if z.modes[0]&unix.FALLOC_FL_ZERO_RANGE != 0 && !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("zero %s at %d: %w", z.file.Name(), piece.offset, err)
		}
		z.modes = z.modes[1:]
	}
	if err := writeZeros(z.file, piece); err != nil {
		return err
	}
	// Piece by piece, so that memory does not fill with dirty pages and an error
	// shows soon.
	if err := z.file.Sync(); err != nil {
		return fmt.Errorf("zero %s at %d: %w", z.file.Name(), piece.offset, err)
	}
	return nil
}

func fallocate(f *os.File, mode uint32, piece extent) error {
	for {
		err := unix.Fallocate(int(f.Fd()), mode, piece.offset, piece.length)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
