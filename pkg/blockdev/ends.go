package blockdev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	mib = int64(1) << 20

	// readEndBytes is what ReadEnds reads at each end.
	readEndBytes = 1 * mib
	// clearStartBytes covers all primary signatures; the farthest is the second
	// header of LUKS2, which begins 4 MiB into the device at most.
	clearStartBytes = 5 * mib
	// clearEndBytes covers what is kept at the end: the backup GPT, MD 0.90 and 1.0
	// and firmware RAID superblocks, two ZFS labels, a nilfs2 superblock.
	clearEndBytes = 2 * mib
	// btrfsCopyBytes is the size of each of btrfs' superblock copies, which lie
	// in the midst of the device at fixed places.
	btrfsCopyBytes = 4096

	// directAlign is a multiple of every logical block size that devices have, as
	// O_DIRECT wants for buffers, offsets and lengths (open(2)).
	directAlign = 4096
)

// extent is a range of bytes.
type extent struct{ offset, length int64 }

// ReadEnds reads the first and the last MiB past the page cache, so that a device
// that cannot be read is found out whatever is in memory. With RegularFiles, files
// on file systems without O_DIRECT are read through the cache.
func (d Device) ReadEnds(ctx context.Context, path string) error {
	f, err := d.openDirect(path)
	if err != nil {
		return err
	}
	return errors.Join(readEnds(ctx, f), f.Close())
}

func (d Device) openDirect(path string) (*os.File, error) {
	f, err := d.open(path, os.O_RDONLY|unix.O_DIRECT)
	// tmpfs before Linux 6.6 has no O_DIRECT; every block device has.
	if d.RegularFiles && errors.Is(err, unix.EINVAL) {
		return d.open(path, os.O_RDONLY)
	}
	return f, err
}

func readEnds(ctx context.Context, f *os.File) error {
	size, err := sizeOf(f)
	if err != nil {
		return err
	}
	buffer := alignedBuffer(int(readEndBytes))
	// The last MiB begins at a multiple of the block size; what that leaves over at
	// the end, less than a block, is the third piece.
	last := max(0, size-readEndBytes) / directAlign * directAlign
	for _, offset := range []int64{0, last, last + readEndBytes} {
		if offset >= size {
			continue
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read ends of %s: %w", f.Name(), err)
		}
		want := min(readEndBytes, size-offset)
		// The whole buffer is asked for, as O_DIRECT wants aligned lengths; the
		// kernel stops at the end of the device.
		n, err := f.ReadAt(buffer, offset)
		if int64(n) < want {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("read %s at %d: %w", f.Name(), offset, err)
		}
	}
	return nil
}

// alignedBuffer returns size bytes that begin at a multiple of directAlign. Go does
// not move heap objects, so they stay there.
func alignedBuffer(size int) []byte {
	raw := make([]byte, size+directAlign)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(raw))) & (directAlign - 1))
	return raw[skip : skip+size : skip+size]
}

// ClearEnds overwrites with zeros the places where file systems, RAID, LUKS, LVM and
// partition tables keep their signatures: the first 5 MiB, the last 2 MiB and the
// places of btrfs' superblock copies, as far as the device has them; and makes that
// durable. What lies elsewhere is left as it is. ErrBusy if the device is claimed.
func (d Device) ClearEnds(ctx context.Context, path string) error {
	f, err := d.open(path, os.O_WRONLY)
	if err != nil {
		return err
	}
	return errors.Join(clearEnds(ctx, f), f.Close())
}

func clearEnds(ctx context.Context, f *os.File) error {
	size, err := sizeOf(f)
	if err != nil {
		return err
	}
	for _, place := range signaturePlaces(size) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("clear ends of %s: %w", f.Name(), err)
		}
		if err := writeZeros(f, place); err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("clear ends of %s: %w", f.Name(), err)
	}
	return nil
}

// signaturePlaces are the ranges that ClearEnds clears in a device of size bytes,
// within it and without overlap.
func signaturePlaces(size int64) []extent {
	places := []extent{{0, min(size, clearStartBytes)}}
	end := max(clearStartBytes, size-clearEndBytes)
	for _, offset := range []int64{64 * mib, 256 << 10 * mib} {
		if length := min(btrfsCopyBytes, end-offset); length > 0 {
			places = append(places, extent{offset, length})
		}
	}
	if end < size {
		places = append(places, extent{end, size - end})
	}
	return places
}

func writeZeros(f *os.File, place extent) error {
	zeros := make([]byte, min(mib, place.length))
	for done := int64(0); done < place.length; {
		n, err := f.WriteAt(zeros[:min(int64(len(zeros)), place.length-done)], place.offset+done)
		if err != nil {
			return fmt.Errorf("write zeros to %s at %d: %w", f.Name(), place.offset+done, err)
		}
		done += int64(n)
	}
	return nil
}
