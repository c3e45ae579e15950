package poolconfig

import (
	"crypto/sha256"
	"slices"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// Config is a valid pools file. It is immutable and safe for concurrent use.
type Config struct {
	pools  []Pool
	nodes  map[string][]Pool // complete, for each node that the file names
	digest [sha256.Size]byte // of the file's bytes
}

// Pool is one pool, with the defaults filled in.
type Pool struct {
	// Name is what classes and the Node annotation call the pool.
	Name string
	// VolumeGroup is the volume group's name.
	VolumeGroup string
	// VolumeGroupUUID pins the volume group, so that another one of that name
	// is never taken for it; "" takes the one that has the name.
	VolumeGroupUUID string
	Type            capacity.PoolType
	// ThinPool is the thin pool's name in the volume group; "" for thick pools.
	ThinPool string
	// ReserveBytes are kept back from allocation.
	ReserveBytes int64
	// OverprovisionRatio is how many virtual bytes are promised per byte of a
	// thin pool, 1 to MaxOverprovisionRatio; 1 for thick pools.
	OverprovisionRatio float64
	// DataWatermarkPercent and MetadataWatermarkPercent are where a thin pool
	// stops taking new volumes, 1 to 100; 0 for thick pools.
	DataWatermarkPercent     int
	MetadataWatermarkPercent int
	// DefaultFilesystem is used where a volume asks for none by name.
	DefaultFilesystem capacity.Filesystem
	Wipe              capacity.WipePolicy
	// MaxInlineSizeBytes bounds one inline volume; 0 means the pool takes none.
	MaxInlineSizeBytes int64
}

// Defaults of the fields that may be left out.
const (
	DefaultOverprovisionRatio       = 1.0
	DefaultDataWatermarkPercent     = 90
	DefaultMetadataWatermarkPercent = 90
	DefaultFilesystem               = capacity.FilesystemExt4
	DefaultWipe                     = capacity.WipeZero
)

// MaxOverprovisionRatio bounds the ratio: beyond it a typing error is likelier than a plan.
const MaxOverprovisionRatio = 100

// ForNode returns the pools of that node, sorted by name: the general ones with
// the node's own entries merged in. The slice is the caller's.
func (c Config) ForNode(nodeName string) []Pool {
	if pools, ok := c.nodes[nodeName]; ok {
		return slices.Clone(pools)
	}
	return slices.Clone(c.pools)
}

// Equal tells whether both were read from the same bytes.
func (c Config) Equal(other Config) bool { return c.digest == other.digest }
