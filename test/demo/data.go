package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csi-local/csi-local/test/screen"
)

const (
	// fileBytes is what the pod writes into each filesystem.
	fileBytes = 48 << 20
	// pattern fills the block volume; anybody who sees it later sees another tenant's data.
	pattern = 0xA5
	// chunkBytes is the unit of reading and writing.
	chunkBytes = 1 << 20
)

// dataPath is where the pod's data are: a file in a filesystem, or the device.
func (n *node) dataPath(v *volume) string {
	if v.block() {
		return n.targetPath(v)
	}
	return filepath.Join(n.targetPath(v), "data")
}

// write has the pod fill a file in each filesystem and all of the block volume.
func (n *node) write(ctx context.Context) error {
	for _, v := range n.volumes() {
		size, flags := int64(fileBytes), os.O_WRONLY|os.O_CREATE|os.O_EXCL
		if v.block() {
			size, flags = v.bytes, os.O_WRONLY
		}
		start := time.Now()
		if err := fill(ctx, n.dataPath(v), flags, size); err != nil {
			return err
		}
		sum, err := digest(n.dataPath(v))
		if err != nil {
			return err
		}
		v.written = sum
		n.p.Call("write, fsync", fmt.Sprintf("%s into %s", screen.Mebibytes(size), v.name), time.Since(start))
	}
	return nil
}

func fill(ctx context.Context, path string, flags int, size int64) error {
	f, err := os.OpenFile(path, flags, 0o640)
	if err != nil {
		return err
	}
	defer f.Close()
	chunk := bytes.Repeat([]byte{pattern}, chunkBytes)
	for done := int64(0); done < size; done += chunkBytes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := f.Write(chunk[:min(chunkBytes, size-done)]); err != nil {
			return err
		}
	}
	return f.Sync()
}

func digest(path string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return sum, err
	}
	return [sha256.Size]byte(hash.Sum(nil)), nil
}

// checkData compares what the pod reads with what it wrote.
func (n *node) checkData(v *volume) error {
	sum, err := digest(n.dataPath(v))
	if err != nil {
		return err
	}
	if sum != v.written {
		return fmt.Errorf("%s: the pod does not read what it wrote", v.id)
	}
	return nil
}

// checkZeros reads all of a device, past the page cache.
func checkZeros(ctx context.Context, path string) (int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	chunk, err := unix.Mmap(-1, 0, chunkBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE) // aligned
	if err != nil {
		return 0, err
	}
	defer unix.Munmap(chunk)
	zeros := make([]byte, chunkBytes)
	var done int64
	for ctx.Err() == nil {
		count, err := f.Read(chunk)
		if i := firstDifference(chunk[:count], zeros); i >= 0 {
			return done, fmt.Errorf("%s: byte %d is %#x: somebody else's data", path, done+int64(i), chunk[i])
		}
		done += int64(count)
		if err == io.EOF {
			return done, nil
		}
		if err != nil {
			return done, err
		}
	}
	return done, ctx.Err()
}

// firstDifference returns the first index at which data differs from want, or -1.
func firstDifference(data, want []byte) int {
	if bytes.Equal(data, want[:len(data)]) {
		return -1
	}
	for i := range data {
		if data[i] != want[i] {
			return i
		}
	}
	return -1
}

// filesystemBytes is the size that a pod sees with df.
func filesystemBytes(path string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return 0, fmt.Errorf("statfs %s: %w", path, err)
	}
	return int64(fs.Blocks) * fs.Bsize, nil
}
