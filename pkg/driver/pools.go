package driver

import (
	"fmt"
	"strings"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

// pool returns the configured pool of that name. A pool that this node does not
// have may exist on another one, and the node cannot know: the error matches
// errExhausted, which sends the claim there.
func (d *Driver) pool(name string) (poolconfig.Pool, error) {
	pools := d.pools()
	names := make([]string, 0, len(pools))
	for _, pool := range pools {
		if pool.Name == name {
			return pool, nil
		}
		names = append(names, pool.Name)
	}
	hint := "the pools here are " + strings.Join(names, ", ")
	if closest := capacity.ClosestName(name, names); closest != "" {
		hint = fmt.Sprintf("did you mean %s?", closest)
	}
	return poolconfig.Pool{}, poolUnknown.errorf(name, d.nodeName, hint)
}

// poolUsage is a pool with what LVM says of it now. Exactly one of thick and
// thin counts, as the pool's type says.
type poolUsage struct {
	pool  poolconfig.Pool
	group lvm.VolumeGroup
	thick capacity.ThickUsage
	thin  capacity.ThinUsage
}

func (u poolUsage) available() int64 {
	if u.pool.Type == capacity.PoolThin {
		return u.thin.Available()
	}
	return u.thick.Available()
}

func (u poolUsage) allocatable() int64 {
	if u.pool.Type == capacity.PoolThin {
		return u.thin.Allocatable()
	}
	return u.thick.Allocatable()
}

func (u poolUsage) allocated() int64 {
	if u.pool.Type == capacity.PoolThin {
		return u.thin.Allocated()
	}
	return u.thick.Allocated()
}

// sizeBytes is the pool's physical size.
func (u poolUsage) sizeBytes() int64 {
	if u.pool.Type == capacity.PoolThin {
		return u.thin.DataBytes
	}
	return u.group.ExtentCount * u.group.ExtentSizeBytes
}

func (u poolUsage) maximumVolumeSize(shape capacity.Shape) int64 {
	if u.pool.Type == capacity.PoolThin {
		return u.thin.MaximumVolumeSize()
	}
	return u.thick.MaximumVolumeSize(shape)
}

// usage says what the pool holds. An error tells why the pool cannot be used
// now; then nothing is known about its capacity.
func (inv *inventory) usage(pool poolconfig.Pool) (poolUsage, error) {
	if err, bad := inv.state.Problems[pool.VolumeGroup]; bad {
		return poolUsage{}, fmt.Errorf("pool %s: %w", pool.Name, err)
	}
	group, ok := inv.state.VolumeGroup(pool.VolumeGroup)
	if !ok {
		return poolUsage{}, fmt.Errorf("pool %s: %w: %s", pool.Name, lvm.ErrVolumeGroupMissing, pool.VolumeGroup)
	}
	if mappedLength(group.Name) > maxVolumeGroupBytes {
		return poolUsage{}, volumeGroupNameTooLong.errorf(pool.Name, group.Name, maxVolumeGroupBytes)
	}
	u := poolUsage{pool: pool, group: group}
	if pool.Type == capacity.PoolThin {
		var err error
		u.thin, err = inv.thinUsage(pool, group)
		return u, err
	}
	u.thick = inv.thickUsage(pool, group)
	return u, nil
}

func (inv *inventory) thickUsage(pool poolconfig.Pool, group lvm.VolumeGroup) capacity.ThickUsage {
	u := capacity.ThickUsage{ExtentSizeBytes: group.ExtentSizeBytes, ReserveBytes: pool.ReserveBytes}
	for _, disk := range group.PhysicalVolumes {
		if disk.Allocatable && !disk.Missing {
			u.DiskFreeExtents = append(u.DiskFreeExtents, disk.FreeExtents)
		}
	}
	for _, lv := range group.LogicalVolumes {
		if v, ours := inv.find(lv.Ref()); ours && v.Pool == pool.Name && v.ThinPool == "" && !v.isOrphan() {
			u.OwnExtents += v.FootprintExtents
		}
	}
	return u
}

func (inv *inventory) thinUsage(pool poolconfig.Pool, group lvm.VolumeGroup) (capacity.ThinUsage, error) {
	thinPool, ok := group.LogicalVolume(pool.ThinPool)
	switch {
	case !ok:
		return capacity.ThinUsage{}, thinPoolMissing.errorf(pool.Name, pool.VolumeGroup, pool.ThinPool)
	case thinPool.SegmentType != lvm.SegThinPool:
		return capacity.ThinUsage{}, thinPoolIsNot.errorf(pool.Name, thinPool.Ref(), thinPool.SegmentType)
	case thinPool.NeedsCheck:
		return capacity.ThinUsage{}, fmt.Errorf("pool %s: %w: %s; see lvmthin(7)", pool.Name, lvm.ErrThinPoolRepair, thinPool.Ref())
	case !thinPool.Zeroes && pool.Wipe != capacity.WipeUnsafeNone:
		return capacity.ThinUsage{}, thinPoolKeepsBytes.errorf(pool.Name, thinPool.Ref(), pool.Wipe, thinPool.Ref())
	}
	u := capacity.ThinUsage{
		ExtentSizeBytes:          group.ExtentSizeBytes,
		DataBytes:                thinPool.SizeBytes,
		DataPercent:              thinPool.DataPercent,
		MetadataPercent:          thinPool.MetadataPercent,
		ReserveBytes:             pool.ReserveBytes,
		OverprovisionRatio:       pool.OverprovisionRatio,
		DataWatermarkPercent:     pool.DataWatermarkPercent,
		MetadataWatermarkPercent: pool.MetadataWatermarkPercent,
	}
	for _, lv := range group.LogicalVolumes {
		if lv.ThinPool != pool.ThinPool || lv.SegmentType == lvm.SegThinPool {
			continue
		}
		if v, ours := inv.find(lv.Ref()); ours && v.Pool == pool.Name && !v.isOrphan() {
			u.OwnVirtualBytes += lv.SizeBytes
		} else {
			u.OtherVirtualBytes += lv.SizeBytes
		}
	}
	return u, nil
}

// shape is the layout of a volume that exists, as footprint arithmetic takes it.
func (v volume) shape() capacity.Shape {
	switch v.SegmentType {
	case lvm.SegThin:
		return capacity.Shape{Layout: capacity.LayoutThin}
	case lvm.SegStriped:
		return capacity.Shape{Layout: capacity.LayoutStriped, Stripes: v.Stripes}
	case lvm.SegRAID1:
		return capacity.Shape{Layout: capacity.LayoutRAID1, Stripes: v.Stripes}
	default:
		return capacity.Shape{Layout: capacity.LayoutLinear}
	}
}
