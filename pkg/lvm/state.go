package lvm

import "time"

// Segment types of logical volumes, in LVM's words (lvs -o segtype).
const (
	SegLinear   = "linear"
	SegStriped  = "striped"
	SegRAID1    = "raid1"
	SegThin     = "thin"
	SegThinPool = "thin-pool"
	SegSnapshot = "snapshot"
)

// Ref names a logical volume.
type Ref struct {
	VolumeGroup string
	Name        string
}

// String is the form LVM takes on its command line: <volume group>/<logical volume>.
func (r Ref) String() string { return r.VolumeGroup + "/" + r.Name }

// State is what LVM said at one moment. It is immutable: whoever has one may
// read it without a lock, and must not change it.
type State struct {
	// Taken is when the report that this state rests on was complete.
	Taken time.Time
	// Generation grows with every change of the state that this process saw.
	Generation   uint64
	VolumeGroups []VolumeGroup
	// Problems are volume groups that were asked for and cannot be used, by
	// name: missing, ambiguous, a physical volume missing. The errors match
	// [ErrVolumeGroupMissing], [ErrVolumeGroupAmbiguous], [ErrPhysicalVolumeMissing].
	Problems map[string]error
}

// VolumeGroup is one volume group and all that is in it.
type VolumeGroup struct {
	Name string
	UUID string
	// ExtentSizeBytes is the allocation unit, a power of two at least 1 KiB in
	// practice a multiple of 4 MiB.
	ExtentSizeBytes int64
	// ExtentCount and FreeExtents count extents of ExtentSizeBytes each.
	ExtentCount int64
	FreeExtents int64
	// MetadataSequence is vg_seqno: it grows with each change of the metadata,
	// whoever made it.
	MetadataSequence int64
	// MaxLogicalVolumes is the most visible logical volumes that the volume group
	// takes (vgchange --maxlogicalvolumes), 0 for any number.
	MaxLogicalVolumes int64
	// MetadataFreeBytes is how much the text of the metadata can still grow, in
	// the smallest metadata area; -1 if LVM does not say. Each logical volume takes
	// some of it: about [MetadataBytesPerVolume].
	MetadataFreeBytes int64
	Tags              []string
	PhysicalVolumes   []PhysicalVolume
	// LogicalVolumes are the visible ones, sorted by name; hidden parts (RAID
	// legs, pool data) are summed up in their FootprintExtents.
	LogicalVolumes []LogicalVolume
}

// MetadataBytesPerVolume is what the metadata grows by with a linear, striped or
// thin volume that has this program's tags: 700 to 1000 bytes with lvm 2.03.16. A
// RAID1 volume has five parts and takes twice as much.
const MetadataBytesPerVolume = 1 << 10

// PhysicalVolume is one disk of a volume group.
type PhysicalVolume struct {
	Device string // path, "[unknown]" when missing
	UUID   string
	// ExtentCount and FreeExtents count extents of the volume group's size.
	ExtentCount int64
	FreeExtents int64
	// LargestFreeRun is the longest run of contiguous free extents.
	LargestFreeRun int64
	Missing        bool
	Allocatable    bool
}

// LogicalVolume is one visible logical volume.
type LogicalVolume struct {
	VolumeGroup string
	Name        string
	UUID        string
	// SegmentType is one of the Seg constants, or LVM's own word for others.
	SegmentType string
	// SizeBytes is what a reader of the device sees; virtual for thin volumes.
	SizeBytes int64
	// FootprintExtents is what the volume takes from its volume group, RAID
	// legs and their metadata included; 0 for thin volumes, which take from
	// their thin pool.
	FootprintExtents int64
	// Stripes is the number of data stripes (1 for linear) or RAID1 legs.
	Stripes  int
	ThinPool string // thin volumes: name of the pool
	Origin   string // snapshots: name of the origin
	Tags     []string
	Active   bool
	// Open tells that something had the device open when the report was made.
	Open bool
	// Path is the device node (/dev/<vg>/<lv>), whether or not it exists now.
	Path string
	// Major and Minor are the kernel's device number; -1 when not active.
	Major, Minor int
	// DataPercent and MetadataPercent are how full a thin pool (or thin volume,
	// data only) is: 0 to 100, -1 when LVM does not know (inactive).
	DataPercent     float64
	MetadataPercent float64
	// Zeroes tells, for a thin pool, that new blocks are zeroed before use.
	Zeroes bool
	// Health is LVM's lv_health_status: empty when well, else for example
	// "partial", "refresh needed", "out_of_data", "metadata_read_only", "failed".
	Health string
	// NeedsCheck is set for a thin pool whose metadata must be repaired.
	NeedsCheck bool
}

// Ref returns the volume's name as LVM's commands take it.
func (v LogicalVolume) Ref() Ref { return Ref{VolumeGroup: v.VolumeGroup, Name: v.Name} }

// VolumeGroup returns the volume group of that name.
func (s *State) VolumeGroup(name string) (VolumeGroup, bool) {
	for i := range s.VolumeGroups {
		if s.VolumeGroups[i].Name == name {
			return s.VolumeGroups[i], true
		}
	}
	return VolumeGroup{}, false
}

// LogicalVolume returns the volume that ref names.
func (s *State) LogicalVolume(ref Ref) (LogicalVolume, bool) {
	vg, ok := s.VolumeGroup(ref.VolumeGroup)
	if !ok {
		return LogicalVolume{}, false
	}
	return vg.LogicalVolume(ref.Name)
}

// LogicalVolume returns the visible logical volume of that name.
func (g VolumeGroup) LogicalVolume(name string) (LogicalVolume, bool) {
	for i := range g.LogicalVolumes {
		if g.LogicalVolumes[i].Name == name {
			return g.LogicalVolumes[i], true
		}
	}
	return LogicalVolume{}, false
}
