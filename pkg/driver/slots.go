package driver

import (
	"cmp"

	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

// deviceNumbers is how many devices device mapper can have: a minor number has 20 bits.
const deviceNumbers = 1 << 20

// slotStep is how coarsely the room in a metadata area is counted. How much of it
// a volume takes is an estimate; counted singly, its error would show as another
// number with every few volumes that come and go.
const slotStep = 16

// slots is how many volumes of ours LVM can hold, those that exist included. While
// a volume group cannot be read, it is what it was before: that a pool is broken is
// told by its bytes, and the scheduler's count must not swing with it.
func (d *Driver) slots() int64 {
	if inv := d.lastInventory.Load(); inv != nil {
		if total, known := inv.slots(d.pools()); known {
			d.lastSlots.Store(total)
			return total
		}
	}
	return cmp.Or(d.lastSlots.Load(), deviceNumbers)
}

// slots counts over the pools' volume groups. Our own volumes, as they come and go,
// do not change it; an orphan takes a slot from them. known is false if one of the groups cannot be read.
func (inv *inventory) slots(pools []poolconfig.Pool) (total int64, known bool) {
	counted := map[string]bool{}
	for _, pool := range pools {
		if counted[pool.VolumeGroup] {
			continue
		}
		counted[pool.VolumeGroup] = true
		group, there := inv.state.VolumeGroup(pool.VolumeGroup)
		if !there || inv.state.Problems[pool.VolumeGroup] != nil {
			return 0, false
		}
		var own int64
		for _, lv := range group.LogicalVolumes {
			if v, ours := inv.find(lv.Ref()); ours && !v.isOrphan() {
				own++
			}
		}
		total += groupSlots(group, own)
	}
	return min(total, deviceNumbers), true
}

// groupSlots is slots of one volume group, in which own volumes are ours.
func groupSlots(group lvm.VolumeGroup, own int64) int64 {
	slots := int64(deviceNumbers)
	if limit := group.MaxLogicalVolumes; limit > 0 {
		slots = own + max(limit-int64(len(group.LogicalVolumes)), 0)
	}
	if group.MetadataFreeBytes >= 0 {
		described := own + group.MetadataFreeBytes/lvm.MetadataBytesPerVolume
		slots = min(slots, max(described-described%slotStep, own))
	}
	return slots
}
