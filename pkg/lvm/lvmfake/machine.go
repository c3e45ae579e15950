package lvmfake

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// Major is the major device number of all volumes; the machine has no other devices.
const Major = 253

// defaultExtentSizeBytes is vgcreate's.
const defaultExtentSizeBytes = 4 << 20

// Disk is one physical volume to be made.
type Disk struct {
	// Device is its path; made up if empty.
	Device string
	// SizeBytes is the usable size, rounded down to whole extents; real LVM takes
	// about 1 MiB of a disk for its metadata before that.
	SizeBytes int64
}

// Group is one volume group to be made.
type Group struct {
	Name string
	// UUID is made up if empty.
	UUID string
	// ExtentSizeBytes is a power of two from 1 KiB on; 4 MiB if 0.
	ExtentSizeBytes int64
	Disks           []Disk
}

// Machine is a computer with disks. Its methods are what happens to the machine
// without the client under test: an administrator at work, another process, a
// reboot. They may be called from any goroutine.
type Machine struct {
	deviceDir string
	// turn holds one element while a command runs, like the lock of a volume group.
	turn chan struct{}

	mu       sync.Mutex // guards the rest
	groups   []*group
	minors   map[int]*volume
	sequence int
}

// NewMachine makes a machine without volume groups. Device nodes and the bytes of
// its disks are kept in deviceDir; if it is empty, there are none.
func NewMachine(deviceDir string) *Machine {
	return &Machine{deviceDir: deviceDir, turn: make(chan struct{}, 1), minors: map[int]*volume{}}
}

// AddGroup makes a volume group, and nothing else: a second one of the same name
// is possible, as when a cloned disk is plugged in. It returns the UUID.
func (m *Machine) AddGroup(g Group) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	made := &group{
		name: g.Name, uuid: g.UUID, extentSize: g.ExtentSizeBytes, sequence: 1, volumes: map[string]*volume{},
	}
	if made.uuid == "" {
		made.uuid = m.newUUID()
	}
	if made.extentSize == 0 {
		made.extentSize = defaultExtentSizeBytes
	}
	for _, d := range g.Disks {
		if err := m.addDisk(made, d); err != nil {
			return "", err
		}
	}
	m.groups = append(m.groups, made)
	return made.uuid, nil
}

// ExtendGroup adds a disk to a volume group, as vgextend does.
func (m *Machine) ExtendGroup(name string, d Disk) error {
	return m.edit(name, func(g *group) error { return m.addDisk(g, d) })
}

// ReduceGroup takes a disk that holds nothing out of its volume group, as vgreduce does.
func (m *Machine) ReduceGroup(name, device string) error {
	return m.edit(name, func(g *group) error {
		d, err := g.disk(device)
		if err != nil {
			return err
		}
		if d.freeExtents() != d.extents {
			return fmt.Errorf("physical volume %s still in use", device)
		}
		g.disks = slices.DeleteFunc(g.disks, func(o *disk) bool { return o == d })
		return nil
	})
}

// RemoveGroup takes a volume group away with its disks, as when they are pulled out.
func (m *Machine) RemoveGroup(uuid string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.groups = slices.DeleteFunc(m.groups, func(g *group) bool { return g.uuid == uuid })
}

// SetDiskMissing pulls a disk out, or puts it back.
func (m *Machine) SetDiskMissing(groupName, device string, missing bool) error {
	return m.edit(groupName, func(g *group) error {
		d, err := g.disk(device)
		if err == nil {
			d.missing = missing
		}
		return err
	})
}

// SetDiskAllocatable is pvchange -x.
func (m *Machine) SetDiskAllocatable(groupName, device string, allocatable bool) error {
	return m.edit(groupName, func(g *group) error {
		d, err := g.disk(device)
		if err == nil {
			d.closed = !allocatable
		}
		return err
	})
}

// LimitVolumes is vgchange --maxlogicalvolumes; 0 lifts the limit.
func (m *Machine) LimitVolumes(groupName string, count int64) error {
	return m.edit(groupName, func(g *group) error {
		g.maxVolumes = count
		return nil
	})
}

// SetOpen sets how many openers a volume's device has, mounts included.
func (m *Machine) SetOpen(ref lvm.Ref, count int) error {
	return m.editVolume(ref, func(v *volume) { v.open = count })
}

// PoolHealth is what a thin pool reports about itself.
type PoolHealth struct {
	// DataPercent and MetadataPercent are 0 to 100.
	DataPercent     float64
	MetadataPercent float64
	// Health is LVM's lv_health_status, for example "out_of_data", "failed".
	Health     string
	NeedsCheck bool
	// NoZeroing: new blocks are handed out with what they held before.
	NoZeroing bool
}

// SetPoolHealth sets what a thin pool reports.
func (m *Machine) SetPoolHealth(ref lvm.Ref, h PoolHealth) error {
	return m.editVolume(ref, func(v *volume) { v.pool = h })
}

// Snapshot makes a thick snapshot of a thick volume, or a thin one of a thin
// volume, by hand. sizeBytes is the space of a thick snapshot.
func (m *Machine) Snapshot(origin lvm.Ref, name string, sizeBytes int64) error {
	return m.edit(origin.VolumeGroup, func(g *group) error {
		from, ok := g.volumes[origin.Name]
		if !ok {
			return fmt.Errorf("%w: %s", lvm.ErrNotFound, origin)
		}
		v := &volume{name: name, origin: origin.Name, extents: from.extents, minor: -1}
		v.segType, v.thinPool = lvm.SegThin, from.thinPool
		if from.segType != lvm.SegThin {
			v.segType, v.stripes = lvm.SegSnapshot, 1
			space := (sizeBytes + g.extentSize - 1) / g.extentSize
			places, err := g.allocate(shape{legs: 1, perLeg: space})
			if err != nil {
				return err
			}
			v.places = places
		}
		if err := m.register(g, v); err != nil {
			return err
		}
		if v.content != "" {
			if err := copySparse(v.content, 0, from.content, 0, v.extents*g.extentSize); err != nil {
				return err
			}
		}
		if v.segType == lvm.SegSnapshot {
			return m.activate(g, v)
		}
		return nil
	})
}

// Empty removes every volume of a group, whatever its state.
func (m *Machine) Empty(groupName string) error {
	return m.edit(groupName, func(g *group) error {
		for _, v := range g.volumes {
			if err := errors.Join(m.deactivate(g, v), m.store(g, v)); err != nil {
				return err
			}
			g.release(v.places)
			delete(g.volumes, v.name)
		}
		g.dropSpare()
		return nil
	})
}

// Reboot makes every volume inactive and closes every device. What was written is kept.
func (m *Machine) Reboot() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.groups {
		for _, v := range g.volumes {
			v.open = 0
			if err := m.deactivate(g, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// edit changes the first volume group of that name.
func (m *Machine) edit(name string, change func(*group) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.groups {
		if g.name == name {
			g.sequence++
			return change(g)
		}
	}
	return fmt.Errorf("%w: %s", lvm.ErrVolumeGroupMissing, name)
}

func (m *Machine) editVolume(ref lvm.Ref, change func(*volume)) error {
	return m.edit(ref.VolumeGroup, func(g *group) error {
		v, ok := g.volumes[ref.Name]
		if !ok {
			return fmt.Errorf("%w: %s", lvm.ErrNotFound, ref)
		}
		change(v)
		return nil
	})
}

func (m *Machine) addDisk(g *group, d Disk) error {
	number := m.next()
	made := &disk{device: d.Device, uuid: m.newUUID(), extents: d.SizeBytes / g.extentSize}
	if made.device == "" {
		made.device = fmt.Sprintf("/dev/disk%d", number)
	}
	made.free = []run{{0, made.extents}}
	if m.deviceDir != "" {
		made.bytes = filepath.Join(m.deviceDir, ".disks", fmt.Sprint(number))
		if err := newSparseFile(made.bytes, made.extents*g.extentSize); err != nil {
			return err
		}
	}
	g.disks = append(g.disks, made)
	return nil
}

func (m *Machine) next() int {
	m.sequence++
	return m.sequence
}

// newUUID has the form of LVM's identifiers.
func (m *Machine) newUUID() string {
	s := fmt.Sprintf("%032d", m.next())
	return s[:6] + "-" + s[6:10] + "-" + s[10:14] + "-" + s[14:18] + "-" + s[18:22] + "-" + s[22:26] + "-" + s[26:]
}

func newSparseFile(path string, size int64) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := f.Truncate(size); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
