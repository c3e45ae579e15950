package lvmfake

import (
	"errors"
	"fmt"
	"slices"

	"github.com/csi-local/csi-local/pkg/lvm"
)

func (g *group) volume(ref lvm.Ref) (*volume, error) {
	if v := g.volumes[ref.Name]; v != nil {
		return v, nil
	}
	return nil, fmt.Errorf("%w: Failed to find logical volume %q", lvm.ErrNotFound, ref)
}

// writable is volume for commands that change metadata.
func (g *group) writable(ref lvm.Ref) (*volume, error) {
	v, err := g.volume(ref)
	if err != nil {
		return nil, err
	}
	return v, g.complete()
}

// complete: LVM changes no metadata of a group with a disk missing.
func (g *group) complete() error {
	if slices.ContainsFunc(g.disks, func(d *disk) bool { return d.missing }) {
		return fmt.Errorf("%w: Cannot change VG %s while PVs are missing.", lvm.ErrPhysicalVolumeMissing, g.name)
	}
	return nil
}

// unused tells whether a volume may be taken down: nothing has it open, no thick
// snapshot rests on it, no volume is in it.
func (g *group) unused(v *volume) error {
	if v.open > 0 {
		return fmt.Errorf("%w: Logical volume %s/%s in use.", lvm.ErrInUse, g.name, v.name)
	}
	return g.noOrigin(v)
}

// noOrigin tells whether a volume is without thick snapshots.
func (g *group) noOrigin(v *volume) error {
	for _, other := range g.volumes {
		if other.segType == lvm.SegSnapshot && other.origin == v.name {
			return fmt.Errorf("%w: %s is the origin of %s", lvm.ErrInUse, v.name, other.name)
		}
	}
	return nil
}

// takes tells why the volume group takes no volume of that name, however small.
func (g *group) takes(name string) error {
	if err := g.complete(); err != nil {
		return err
	}
	if g.volumes[name] != nil {
		return fmt.Errorf("%w: Logical Volume %q already exists in volume group %q", lvm.ErrExists, name, g.name)
	}
	if g.maxVolumes > 0 && int64(len(g.volumes)) >= g.maxVolumes {
		return fmt.Errorf("%w: Maximum number of logical volumes (%d) reached in volume group %s", lvm.ErrNoSpace, g.maxVolumes, g.name)
	}
	return nil
}

func (m *Machine) create(g *group, req lvm.CreateRequest) error {
	if err := g.takes(req.Name); err != nil {
		return err
	}
	v := &volume{name: req.Name, segType: req.SegmentType, stripes: 1, tags: sortedTags(req.Tags), minor: -1}
	unit := int64(1)
	switch req.SegmentType {
	case lvm.SegStriped:
		v.stripes, unit = req.Stripes, int64(req.Stripes)
	case lvm.SegRAID1:
		v.stripes = req.Stripes
	case lvm.SegThin:
		v.stripes, v.thinPool = 0, req.ThinPool
	}
	var err error
	if v.extents, err = g.roundUp(req.SizeBytes, unit); err != nil {
		return err
	}
	if req.SegmentType == lvm.SegThin {
		if err := m.usablePool(g, req.ThinPool); err != nil {
			return err
		}
	} else if v.places, err = g.allocate(g.shapeOf(v, 0)); err != nil {
		return err
	}
	return m.register(g, v)
}

// usablePool checks that a pool takes new volumes, and activates it as LVM does.
func (m *Machine) usablePool(g *group, name string) error {
	pool := g.volumes[name]
	switch {
	case pool == nil:
		return fmt.Errorf("%w: Pool %s not found in Volume group %s.", lvm.ErrNotFound, name, g.name)
	case pool.segType != lvm.SegThinPool:
		return fmt.Errorf("%w: Logical volume %s/%s is not a thin pool.", lvm.ErrNotFound, g.name, name)
	case pool.pool.NeedsCheck:
		return fmt.Errorf("%w: %s/%s", lvm.ErrThinPoolRepair, g.name, name)
	case pool.pool.DataPercent >= 100 || pool.pool.MetadataPercent >= 100:
		return fmt.Errorf("%w: Cannot create new thin volume, free space in thin pool %s/%s reached threshold.",
			lvm.ErrThinPoolFull, g.name, name)
	}
	return m.activate(g, pool)
}

// shapeOf is what v takes beyond the extents it has.
func (g *group) shapeOf(v *volume, had int64) shape {
	s := shape{legs: 1, perLeg: v.extents - had}
	switch v.segType {
	case lvm.SegStriped:
		s.legs, s.perLeg = v.stripes, (v.extents-had)/int64(v.stripes)
	case lvm.SegRAID1:
		s.legs = v.stripes
		if had == 0 { // an extended mirror keeps the metadata that it has
			s.metadata = raidMetadataExtents(v.extents, g.extentSize)
		}
	}
	return s
}

// raidMetadataExtents is the size of a new leg's metadata: two superblocks of 4 KiB
// and one bit for each region of 2 MiB (md(4); LVM's raid_region_size), or larger ones
// if there would be more than 2^21 of them.
func raidMetadataExtents(dataExtents, extentSize int64) int64 {
	region := int64(2 << 20)
	for dataExtents*extentSize > region<<21 {
		region *= 2
	}
	size := 2*4096 + (dataExtents*extentSize/region+7)/8
	size = (size + 511) / 512 * 512
	return (size + extentSize - 1) / extentSize
}

// roundUp returns whole extents, a multiple of unit; 32 bits hold LVM's count.
func (g *group) roundUp(sizeBytes, unit int64) (int64, error) {
	if sizeBytes <= 0 {
		return 0, fmt.Errorf("%w: a size of %d bytes", lvm.ErrInvalid, sizeBytes)
	}
	extents := (sizeBytes-1)/g.extentSize + 1
	extents = (extents-1)/unit*unit + unit
	if extents > 1<<32-1 || extents > (1<<63-1)/g.extentSize {
		return 0, fmt.Errorf("%w: %d bytes are more than LVM can address", lvm.ErrInvalid, sizeBytes)
	}
	return extents, nil
}

func (m *Machine) createPool(g *group, req lvm.ThinPoolRequest) error {
	if err := g.takes(req.Name); err != nil {
		return err
	}
	v := &volume{name: req.Name, segType: lvm.SegThinPool, stripes: 1, tags: sortedTags(req.Tags), minor: -1}
	var err error
	if v.extents, err = g.roundUp(req.SizeBytes, 1); err != nil {
		return err
	}
	metadata := poolMetadataExtents(v.extents*g.extentSize, req.ChunkSizeBytes, g.extentSize)
	if v.places, err = g.allocatePool(v.extents, metadata); err != nil {
		return err
	}
	v.pool.MetadataPercent = newPoolMetadataPercent
	if err := m.register(g, v); err != nil {
		return err
	}
	return m.activate(g, v)
}

// newPoolMetadataPercent is what a small pool without volumes reports.
const newPoolMetadataPercent = 10

func (m *Machine) remove(g *group, v *volume) error {
	if err := g.unused(v); err != nil {
		return err
	}
	if g.hasThin(v.name) {
		return fmt.Errorf("%w: %s has volumes in it", lvm.ErrInUse, v.name)
	}
	if err := errors.Join(m.deactivate(g, v), m.store(g, v)); err != nil {
		return err
	}
	g.release(v.places)
	delete(g.volumes, v.name)
	g.dropSpare()
	if pool := g.volumes[v.thinPool]; pool != nil && !g.hasThin(pool.name) {
		pool.pool.DataPercent = 0
		if pool.pool.Health == "out_of_data" {
			pool.pool.Health = ""
		}
	}
	return nil
}

func (g *group) hasThin(pool string) bool {
	for _, v := range g.volumes {
		if v.thinPool == pool {
			return true
		}
	}
	return false
}

func (m *Machine) extend(g *group, v *volume, sizeBytes int64) error {
	unit := int64(1)
	if v.segType == lvm.SegStriped {
		unit = int64(v.stripes)
	}
	extents, err := g.roundUp(sizeBytes, unit)
	if err != nil || v.extents*g.extentSize >= sizeBytes {
		return err
	}
	if err := g.complete(); err != nil {
		return err
	}
	if v.active && v.segType != lvm.SegThin {
		for _, other := range g.volumes {
			if other.segType == lvm.SegSnapshot && other.origin == v.name {
				return fmt.Errorf("%w: Snapshot origin volumes can be resized only while inactive", lvm.ErrInUse)
			}
		}
	}
	had := v.extents
	v.extents = extents
	if v.segType != lvm.SegThin {
		more, err := g.allocate(g.shapeOf(v, had))
		if err != nil {
			v.extents = had
			return err
		}
		for i, leg := range more.legs {
			v.places.legs[i] = append(v.places.legs[i], leg...)
		}
		v.places.metadata = append(v.places.metadata, more.metadata...)
	}
	return m.load(g, v, had)
}

func (m *Machine) rename(g *group, v *volume, newName string) error {
	if err := m.unlink(g, v); err != nil {
		return err
	}
	for _, other := range g.volumes {
		if other.thinPool == v.name {
			other.thinPool = newName
		}
		if other.origin == v.name {
			other.origin = newName
		}
	}
	delete(g.volumes, v.name)
	v.name = newName
	g.volumes[newName] = v
	return m.link(g, v)
}
