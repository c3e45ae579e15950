package schedplugin

import (
	"cmp"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// How volumes are assumed to be made in a pool of which the node does not say:
// LVM's own default extents, and the file system of a pool whose configuration
// names none.
const (
	defaultExtentSizeBytes = 4 << 20
	defaultFilesystem      = capacity.FilesystemExt4
)

// anyPool stands in a demand whose pool is not known. Its bytes are charged to
// every pool of the node, because they may be in any.
const anyPool = ""

// demand is what one volume asks of a pool, independent of the node.
type demand struct {
	pool       string
	shape      capacity.Shape
	filesystem capacity.Filesystem
	// poolFilesystem: a new volume gets the file system that is the pool's default.
	poolFilesystem bool
	// requestedBytes is what the claim asks for, or the true size of a volume
	// that exists.
	requestedBytes int64
}

// poolBytes is what the volume takes from such a pool: rounding, the file
// system's minimum and RAID copies included, by the same function with which the
// driver makes the volume. A request that no volume can satisfy counts as it
// stands: the driver will refuse it.
func (d demand) poolBytes(pool capacity.PoolFacts) int64 {
	extentSizeBytes := cmp.Or(pool.ExtentSizeBytes, defaultExtentSizeBytes)
	filesystem := d.filesystem
	if d.poolFilesystem {
		filesystem = cmp.Or(pool.Filesystem, defaultFilesystem)
	}
	size, err := capacity.VolumeSize(d.shape, filesystem, d.requestedBytes, 0, extentSizeBytes)
	if err != nil {
		return d.requestedBytes
	}
	bytes, err := capacity.Footprint(d.shape, size, extentSizeBytes)
	if err != nil {
		return d.requestedBytes
	}
	return bytes
}

// classDemand is what a class's parameters say of the volumes of its claims.
// The pool's type is not known here; it makes no difference to the bytes,
// because a class for a thin pool names no layout and a thin volume takes what
// a linear one does.
func classDemand(parameters map[string]string) (demand, error) {
	p, err := capacity.ParseClassParameters(parameters)
	if err != nil {
		return demand{}, err
	}
	return newDemand(p.Pool, p.ShapeIn(capacity.PoolThick), p.Filesystem), nil
}

func newDemand(pool string, shape capacity.Shape, filesystem capacity.Filesystem) demand {
	return demand{pool: pool, shape: shape, filesystem: filesystem, poolFilesystem: filesystem == capacity.FilesystemNone}
}

// withClaim fills in what the claim asks for.
func (d demand) withClaim(requestedBytes int64, block bool) demand {
	d.requestedBytes = max(requestedBytes, 1)
	if block {
		d.filesystem, d.poolFilesystem = capacity.FilesystemNone, false
	}
	return d
}

// inlineDemand reads the attributes of an inline volume. The bound on its size
// is the node's business.
func inlineDemand(attributes map[string]string) (demand, error) {
	p, err := capacity.ParseInlineParameters(attributes, -1)
	if err != nil {
		return demand{}, err
	}
	d := newDemand(p.Pool, p.ShapeIn(capacity.PoolThick), p.Filesystem)
	d.requestedBytes = p.SizeBytes
	return d, nil
}

// volumeDemand reads the attributes of a PersistentVolume, which the driver
// wrote when it made the volume: its class may be gone, or have changed. Where
// they cannot be read, at least the capacity is charged, to the pool they name
// or to any.
func volumeDemand(attributes map[string]string, capacityBytes int64) demand {
	d := demand{pool: attributes[capacity.ParamPool], requestedBytes: max(capacityBytes, 1)}
	switch layout := capacity.Layout(attributes[capacity.ParamLayout]); layout {
	case "", capacity.LayoutLinear, capacity.LayoutThin:
		return d // nearly all: a thin volume takes what a linear one does
	}
	known := map[string]string{}
	for _, key := range [...]string{capacity.ParamPool, capacity.ParamLayout, capacity.ParamStripes, capacity.ParamMirrors} {
		if value, ok := attributes[key]; ok {
			known[key] = value
		}
	}
	if read, err := classDemand(known); err == nil {
		d.shape = read.shape
	}
	return d
}
