package lvmfake

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// stretch is a range of a volume's bytes and the places on disks that hold it; a
// mirror has several, which are the same.
type stretch struct {
	offset, length int64
	places         []place
}

type place struct {
	disk   *disk
	offset int64
}

// stretches maps the extents of v from first on. Stripes are mapped extent by
// extent; what matters is only that no byte is lost.
func (g *group) stretches(v *volume, first int64) []stretch {
	var out []stretch
	switch v.segType {
	case lvm.SegLinear:
		at := int64(0)
		for _, p := range v.places.legs[0] {
			skip := min(max(first-at, 0), p.length)
			if skip < p.length {
				out = append(out, stretch{(at + skip) * g.extentSize, (p.length - skip) * g.extentSize,
					[]place{{p.disk, (p.start + skip) * g.extentSize}}})
			}
			at += p.length
		}
	case lvm.SegStriped, lvm.SegRAID1:
		legs := make([][]place, len(v.places.legs))
		for i, leg := range v.places.legs {
			for _, p := range leg {
				for e := range p.length {
					legs[i] = append(legs[i], place{p.disk, (p.start + e) * g.extentSize})
				}
			}
		}
		for e := first; e < v.extents; e++ {
			s := stretch{offset: e * g.extentSize, length: g.extentSize}
			if v.segType == lvm.SegStriped {
				n := int64(len(legs))
				s.places = []place{legs[e%n][e/n]}
			} else {
				for _, leg := range legs {
					s.places = append(s.places, leg[e])
				}
			}
			out = append(out, s)
		}
	}
	return out
}

// load fills a volume's content from first on with what its extents hold, and
// cuts or extends the content to the volume's size.
func (m *Machine) load(g *group, v *volume, first int64) error {
	if v.content == "" {
		return nil
	}
	if err := os.Truncate(v.content, v.extents*g.extentSize); err != nil {
		return err
	}
	for _, s := range g.stretches(v, first) {
		from := s.places[0]
		if err := copySparse(v.content, s.offset, from.disk.bytes, from.offset, s.length); err != nil {
			return fmt.Errorf("load %s: %w", v.name, err)
		}
	}
	return nil
}

// store writes a volume's content back to its extents and removes it.
func (m *Machine) store(g *group, v *volume) error {
	if v.content == "" {
		return nil
	}
	for _, s := range g.stretches(v, 0) {
		for _, to := range s.places {
			if err := copySparse(to.disk.bytes, to.offset, v.content, s.offset, s.length); err != nil {
				return fmt.Errorf("store %s: %w", v.name, err)
			}
		}
	}
	return os.Remove(v.content)
}

// copySparse copies a range; holes of the source become holes.
func copySparse(toPath string, toOffset int64, fromPath string, fromOffset, length int64) error {
	from, err := os.Open(fromPath)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(toPath, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(to.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, toOffset, length)
	for at := fromOffset; err == nil && at < fromOffset+length; {
		var data, hole int64
		data, err = unix.Seek(int(from.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) || err == nil && data >= fromOffset+length {
			err = nil
			break
		}
		if err == nil {
			hole, err = unix.Seek(int(from.Fd()), data, unix.SEEK_HOLE)
		}
		if err == nil {
			at = min(hole, fromOffset+length)
			_, err = io.Copy(io.NewOffsetWriter(to, toOffset+data-fromOffset), io.NewSectionReader(from, data, at-data))
		}
	}
	return errors.Join(err, to.Close())
}

// activate makes the device node: a file with the volume's bytes, and a link to it
// by the volume's name, as udev makes.
func (m *Machine) activate(g *group, v *volume) error {
	if v.active {
		return nil
	}
	minor := 0
	for m.minors[minor] != nil {
		minor++
	}
	if v.content != "" {
		node := filepath.Join(m.deviceDir, fmt.Sprintf("dm-%d", minor))
		if err := os.Rename(v.content, node); err != nil {
			return err
		}
		v.content = node
	}
	v.active, v.minor = true, minor
	m.minors[minor] = v
	return m.link(g, v)
}

func (m *Machine) link(g *group, v *volume) error {
	if v.content == "" || !v.active {
		return nil
	}
	path := m.path(g.name, v.name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.Symlink(v.content, path)
}

func (m *Machine) unlink(g *group, v *volume) error {
	if v.content == "" || !v.active {
		return nil
	}
	return os.Remove(m.path(g.name, v.name))
}

func (m *Machine) deactivate(g *group, v *volume) error {
	if !v.active {
		return nil
	}
	if v.content != "" {
		kept := filepath.Join(m.deviceDir, ".inactive", v.uuid)
		if err := errors.Join(m.unlink(g, v), os.Rename(v.content, kept)); err != nil {
			return err
		}
		v.content = kept
	}
	delete(m.minors, v.minor)
	v.active, v.minor = false, -1
	return nil
}

// register gives a new volume its identity and its bytes: what its extents held.
func (m *Machine) register(g *group, v *volume) error {
	v.uuid = m.newUUID()
	v.minor = -1
	g.volumes[v.name] = v
	if m.deviceDir == "" || v.segType == lvm.SegThinPool {
		return nil
	}
	v.content = filepath.Join(m.deviceDir, ".inactive", v.uuid)
	if err := newSparseFile(v.content, v.extents*g.extentSize); err != nil {
		return err
	}
	return m.load(g, v, 0)
}

// punch makes the first length bytes of a file a hole.
func punch(path string, length int64) error {
	if length == 0 {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, length), f.Close())
}
