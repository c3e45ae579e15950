package drivertest

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// signature is where a format can be recognised.
type signature struct {
	name   string
	offset int64
	magic  string
}

func signatures() []signature {
	return []signature{
		{"ext4", 1024 + 56, "\x53\xEF"},
		{"xfs", 0, "XFSB"},
		{"btrfs", 64<<10 + 64, "_BHRfS_M"},
		{"crypto_LUKS", 0, "LUKS\xba\xbe"},
		{"LVM2_member", 512, "LABELONE"},
	}
}

// probe names the format on a device, as blkid does.
func probe(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	for _, s := range signatures() {
		b := make([]byte, len(s.magic))
		if _, err := f.ReadAt(b, s.offset); err == nil && string(b) == s.magic {
			return s.name, nil
		}
	}
	return "", nil
}

const blockBytes = 4096

// format makes every byte of the device zero and writes a superblock with a
// UUID of its own: what was there is lost, as with mkfs.
func format(path, fsType string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	size, err := f.Seek(0, 2)
	if err == nil {
		err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, size)
	}
	uuid := make([]byte, 16)
	if err == nil {
		_, err = rand.Read(uuid)
	}
	if err == nil {
		err = writeSuperblock(f, fsType, size, uuid)
	}
	return errors.Join(err, f.Close())
}

// writeSuperblock writes the fields that the driver reads; nil keeps the UUID.
func writeSuperblock(f *os.File, fsType string, sizeBytes int64, uuid []byte) error {
	blocks := uint64(sizeBytes / blockBytes)
	le, be := binary.LittleEndian, binary.BigEndian
	var fields map[int64][]byte
	var uuidAt int64
	switch fsType {
	case "ext4":
		const at = 1024
		uuidAt = at + 104
		fields = map[int64][]byte{
			at + 4: le.AppendUint32(nil, uint32(blocks)), at + 24: le.AppendUint32(nil, 2),
			at + 56: {0x53, 0xEF}, at + 58: le.AppendUint16(nil, 1),
		}
	case "xfs":
		uuidAt = 32
		fields = map[int64][]byte{0: []byte("XFSB"), 4: be.AppendUint32(nil, blockBytes), 8: be.AppendUint64(nil, blocks)}
	default:
		const at = 64 << 10
		uuidAt = at + 32
		fields = map[int64][]byte{
			at + 64: []byte("_BHRfS_M"), at + 0x90: le.AppendUint32(nil, blockBytes),
			at + 0xC9 + 8: le.AppendUint64(nil, blocks*blockBytes),
		}
	}
	if uuid != nil {
		fields[uuidAt] = uuid
	}
	for offset, b := range fields {
		if _, err := f.WriteAt(b, offset); err != nil {
			return err
		}
	}
	return nil
}

// superblockSize is the size that the file system has, in bytes.
func superblockSize(path, fsType string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	b := make([]byte, 8)
	switch fsType {
	case "ext4":
		_, err = f.ReadAt(b[:4], 1024+4)
		return int64(binary.LittleEndian.Uint32(b)) * blockBytes, err
	case "xfs":
		_, err = f.ReadAt(b, 8)
		return int64(binary.BigEndian.Uint64(b)) * blockBytes, err
	default:
		_, err = f.ReadAt(b, 64<<10+0xC9+8)
		return int64(binary.LittleEndian.Uint64(b)), err
	}
}

// grow sets the size in the superblock to that of the device.
func grow(path, fsType string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	size, err := f.Seek(0, 2)
	if err == nil {
		err = writeSuperblock(f, fsType, size, nil)
	}
	return errors.Join(err, f.Close())
}
