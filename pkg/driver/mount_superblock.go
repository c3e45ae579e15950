package driver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// superblock is what a file system says of itself on its device.
type superblock struct {
	// sizeBytes is the size of the file system, unitBytes its block.
	sizeBytes, unitBytes int64
	// hasErrors: the kernel found the file system damaged and noted it (ext4 only).
	hasErrors bool
}

// fills tells whether a device of that size leaves no room for another block.
func (s superblock) fills(deviceBytes int64) bool {
	return deviceBytes-s.sizeBytes < s.unitBytes
}

// superblockLayout is where the numbers are, in bytes from the start of the
// device and of the superblock; see ext4(5), "struct ext4_super_block" and
// "struct xfs_dsb" of the kernel, and btrfs "struct btrfs_super_block".
type superblockLayout struct {
	offset, length int64
	parse          func(b []byte) (superblock, bool)
}

func layoutOf(fsType string) (superblockLayout, bool) {
	switch fsType {
	case "ext4":
		return superblockLayout{offset: 1024, length: 1024, parse: parseExt4}, true
	case "xfs":
		return superblockLayout{offset: 0, length: 512, parse: parseXFS}, true
	case "btrfs":
		return superblockLayout{offset: 64 << 10, length: 4096, parse: parseBtrfs}, true
	}
	return superblockLayout{}, false
}

// readSuperblock reads from the device or file. Of a mounted xfs it may be
// older than what the kernel has in memory: never larger, so growing once more
// than needed is all that can come of it.
func readSuperblock(device, fsType string) (s superblock, deviceBytes int64, err error) {
	layout, ok := layoutOf(fsType)
	if !ok {
		return superblock{}, 0, fmt.Errorf("superblock of %s: %w", fsType, errors.ErrUnsupported)
	}
	f, err := os.Open(device)
	if err != nil {
		return superblock{}, 0, fmt.Errorf("read the superblock: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if deviceBytes, err = f.Seek(0, io.SeekEnd); err != nil {
		return superblock{}, 0, fmt.Errorf("size of %s: %w", device, err)
	}
	b := make([]byte, layout.length)
	if _, err = f.ReadAt(b, layout.offset); err != nil {
		return superblock{}, 0, fmt.Errorf("read the superblock of %s: %w", device, err)
	}
	if s, ok = layout.parse(b); !ok {
		return superblock{}, 0, fmt.Errorf("%s has no superblock of %s", device, fsType)
	}
	return s, deviceBytes, nil
}

func parseExt4(b []byte) (superblock, bool) {
	const (
		magic          = 0xEF53
		stateHasErrors = 0x2  // EXT4_ERROR_FS
		incompat64Bit  = 0x80 // EXT4_FEATURE_INCOMPAT_64BIT
		maxLogBlock    = 6    // 64 KiB
	)
	le := binary.LittleEndian
	logBlock := le.Uint32(b[24:])
	if le.Uint16(b[56:]) != magic || logBlock > maxLogBlock {
		return superblock{}, false
	}
	blocks := uint64(le.Uint32(b[4:]))
	if le.Uint32(b[96:])&incompat64Bit != 0 {
		blocks |= uint64(le.Uint32(b[336:])) << 32
	}
	return sized(blocks, 1024<<logBlock, le.Uint16(b[58:])&stateHasErrors != 0)
}

func parseXFS(b []byte) (superblock, bool) {
	be := binary.BigEndian
	if string(b[:4]) != "XFSB" {
		return superblock{}, false
	}
	return sized(be.Uint64(b[8:]), uint64(be.Uint32(b[4:])), false)
}

func parseBtrfs(b []byte) (superblock, bool) {
	const deviceBytesAt = 0xC9 + 8 // dev_item.total_bytes, of this device alone
	le := binary.LittleEndian
	if string(b[64:72]) != "_BHRfS_M" {
		return superblock{}, false
	}
	unit := uint64(le.Uint32(b[0x90:]))
	if unit == 0 {
		return superblock{}, false
	}
	return sized(le.Uint64(b[deviceBytesAt:])/unit, unit, false)
}

// sized refuses numbers that no device has, so that a damaged superblock cannot overflow.
func sized(blocks, unit uint64, hasErrors bool) (superblock, bool) {
	const maxUnit, maxBytes = 1 << 20, 1 << 62
	if unit == 0 || unit > maxUnit || blocks > maxBytes/unit {
		return superblock{}, false
	}
	return superblock{sizeBytes: int64(blocks * unit), unitBytes: int64(unit), hasErrors: hasErrors}, true
}
