package lvmfake

import (
	"fmt"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// LVM's defaults for thin pools (lvmthin(7)): 64 bytes of metadata for each chunk,
// and larger chunks rather than more than 128 MiB of metadata.
const (
	defaultChunkBytes    = 64 << 10
	metadataChunkBytes   = 64
	minMetadataBytes     = 2 << 20
	optimalMetadataBytes = 128 << 20
)

// poolMetadataExtents is the size of a new pool's metadata.
func poolMetadataExtents(dataBytes, chunkBytes, extentSize int64) int64 {
	chunk := chunkBytes
	if chunk == 0 {
		chunk = defaultChunkBytes
	}
	size := dataBytes / chunk * metadataChunkBytes
	for chunkBytes == 0 && size > optimalMetadataBytes {
		chunk *= 2
		size = dataBytes / chunk * metadataChunkBytes
	}
	size = max(size, minMetadataBytes)
	return (size + extentSize - 1) / extentSize
}

// allocatePool finds space for a pool's data, its metadata and, with the first
// pool of a group or a larger one, the spare for repairs.
func (g *group) allocatePool(dataExtents, metadataExtents int64) (places, error) {
	spare := max(0, metadataExtents-g.spare.extents())
	if free := g.freeExtents(); dataExtents+metadataExtents+spare > free {
		return places{}, fmt.Errorf("%w: Volume group %q has insufficient free space (%d extents): %d required.",
			errNoExtents, g.name, free, dataExtents+metadataExtents+spare)
	}
	if spare > 0 {
		more, err := g.allocate(shape{legs: 1, perLeg: spare})
		if err != nil {
			return places{}, err
		}
		g.spare.metadata = append(g.spare.metadata, more.all()...)
	}
	data, err := g.allocate(shape{legs: 1, perLeg: dataExtents})
	if err != nil {
		g.dropSpare()
		return places{}, err
	}
	if d := g.smallest(metadataExtents); d != nil {
		data.metadata = append(data.metadata, d.take(metadataExtents))
		return data, nil
	}
	metadata, err := g.allocate(shape{legs: 1, perLeg: metadataExtents})
	if err != nil {
		g.release(data)
		return places{}, err
	}
	data.metadata = metadata.all()
	return data, nil
}

// dropSpare frees the spare when the last pool is gone.
func (g *group) dropSpare() {
	for _, v := range g.volumes {
		if v.segType == lvm.SegThinPool {
			return
		}
	}
	g.release(g.spare)
	g.spare = places{}
}
