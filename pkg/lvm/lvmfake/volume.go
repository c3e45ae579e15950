package lvmfake

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// group is a volume group.
type group struct {
	name, uuid string
	extentSize int64
	disks      []*disk
	volumes    map[string]*volume
	sequence   int64
	maxVolumes int64 // 0 for any number
	// spare is the space for repairs of thin pool metadata, one for the group.
	spare places
}

// metadataAreaBytes is what the text of the metadata has in an area of 1 MiB,
// pvcreate's default: half of it, because the old text is kept until the new one stands.
const metadataAreaBytes = 520_704

func (g *group) disk(device string) (*disk, error) {
	for _, d := range g.disks {
		if d.device == device {
			return d, nil
		}
	}
	return nil, fmt.Errorf("%w: no disk %s in %s", lvm.ErrPhysicalVolumeMissing, device, g.name)
}

// volume is a visible logical volume.
type volume struct {
	name, uuid string
	segType    string
	extents    int64 // its size, virtual for thin volumes
	stripes    int
	tags       []string
	thinPool   string
	origin     string
	places     places
	pool       PoolHealth // of thin pools
	active     bool
	minor      int // -1 when not active
	open       int
	content    string // file with its bytes; empty if the machine keeps none
}

// partial tells that a part of the volume is on a missing disk.
func (v *volume) partial() bool {
	return slices.ContainsFunc(v.places.all(), func(p piece) bool { return p.disk.missing })
}

func (m *Machine) report(g *group) lvm.VolumeGroup {
	out := lvm.VolumeGroup{
		Name: g.name, UUID: g.uuid, ExtentSizeBytes: g.extentSize, FreeExtents: g.freeExtents(), MetadataSequence: g.sequence,
		MaxLogicalVolumes: g.maxVolumes,
		MetadataFreeBytes: max(0, metadataAreaBytes-int64(len(g.volumes))*lvm.MetadataBytesPerVolume),
	}
	for _, d := range g.disks {
		device := d.device
		if d.missing {
			device = "[unknown]"
		}
		out.ExtentCount += d.extents
		out.PhysicalVolumes = append(out.PhysicalVolumes, lvm.PhysicalVolume{
			Device: device, UUID: d.uuid, ExtentCount: d.extents, FreeExtents: d.freeExtents(),
			LargestFreeRun: d.largestRun().length, Missing: d.missing, Allocatable: !d.closed,
		})
	}
	slices.SortFunc(out.PhysicalVolumes, func(a, b lvm.PhysicalVolume) int {
		return cmp.Compare(a.Device+a.UUID, b.Device+b.UUID)
	})
	for _, v := range g.volumes {
		out.LogicalVolumes = append(out.LogicalVolumes, m.reportVolume(g, v))
	}
	slices.SortFunc(out.LogicalVolumes, func(a, b lvm.LogicalVolume) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (m *Machine) reportVolume(g *group, v *volume) lvm.LogicalVolume {
	out := lvm.LogicalVolume{
		VolumeGroup: g.name, Name: v.name, UUID: v.uuid, SegmentType: v.segType,
		SizeBytes: v.extents * g.extentSize, FootprintExtents: v.places.extents(), Stripes: v.stripes,
		ThinPool: v.thinPool, Origin: v.origin, Tags: slices.Clone(v.tags), Active: v.active, Open: v.open > 0,
		Path: m.path(g.name, v.name), Major: -1, Minor: v.minor, DataPercent: -1, MetadataPercent: -1,
	}
	if v.active {
		out.Major = Major
	}
	if v.partial() {
		out.Health = "partial"
	}
	switch v.segType {
	case lvm.SegThinPool:
		out.Zeroes = !v.pool.NoZeroing
		if v.active {
			out.DataPercent, out.MetadataPercent = v.pool.DataPercent, v.pool.MetadataPercent
			out.NeedsCheck = v.pool.NeedsCheck
			out.Health = v.pool.Health
		}
	case lvm.SegThin, lvm.SegSnapshot:
		if v.active {
			out.DataPercent = 0
		}
	}
	return out
}

// path is where a volume's device node is, whether or not it exists.
func (m *Machine) path(groupName, name string) string {
	return filepath.Join(m.devDir(), groupName, name)
}

func (m *Machine) devDir() string {
	if m.deviceDir == "" {
		return "/dev"
	}
	return m.deviceDir
}
