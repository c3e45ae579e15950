package driver

import (
	"context"
	"fmt"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// inventory is one state of LVM seen through the tags: the volumes that are
// ours. Like the state it is immutable.
type inventory struct {
	state   *lvm.State
	volumes []volume // by volume group and name
	byRef   map[lvm.Ref]int
	byName  map[string][]int // by CSI name
	// unreadable are volumes with our driver tag that could not be decoded.
	unreadable map[lvm.Ref]error
}

func newInventory(driverName string, state *lvm.State) *inventory {
	inv := &inventory{state: state, byRef: map[lvm.Ref]int{}, byName: map[string][]int{}, unreadable: map[lvm.Ref]error{}}
	for _, group := range state.VolumeGroups {
		for _, lv := range group.LogicalVolumes {
			v, ours, err := decodeVolume(driverName, lv)
			switch {
			case err != nil:
				inv.unreadable[lv.Ref()] = err
			case ours:
				inv.byRef[lv.Ref()] = len(inv.volumes)
				inv.byName[v.CSIName] = append(inv.byName[v.CSIName], len(inv.volumes))
				inv.volumes = append(inv.volumes, v)
			}
		}
	}
	return inv
}

// find returns the volume that ref names.
func (inv *inventory) find(ref lvm.Ref) (volume, bool) {
	i, ok := inv.byRef[ref]
	if !ok {
		return volume{}, false
	}
	return inv.volumes[i], true
}

// named returns the persistent volumes (inline ones if inline is set) with a CSI name.
func (inv *inventory) named(csiName string, inline bool) []volume {
	var found []volume
	for _, i := range inv.byName[csiName] {
		if v := inv.volumes[i]; (v.EphemeralPodUID != "") == inline {
			found = append(found, v)
		}
	}
	return found
}

// inventory returns the last known state, without starting a process.
func (d *Driver) inventory(ctx context.Context) (*inventory, error) {
	state, err := d.volumes.State(ctx)
	if err != nil {
		return nil, err
	}
	return d.inventoryOf(state), nil
}

// freshInventory asks LVM.
func (d *Driver) freshInventory(ctx context.Context) (*inventory, error) {
	state, err := d.volumes.Refresh(ctx)
	if err != nil {
		return nil, err
	}
	return d.inventoryOf(state), nil
}

// inventoryOf decodes each state once, however many calls read it.
func (d *Driver) inventoryOf(state *lvm.State) *inventory {
	if last := d.lastInventory.Load(); last != nil && last.state == state {
		return last
	}
	inv := newInventory(d.driverName, state)
	d.lastInventory.Store(inv)
	return inv
}

// lookup returns the volume with a CSI volume ID: of a persistent volume, or
// the handle of an inline one. It believes the last known state when that has
// the volume; before it says errNotFound it asks LVM, because callers draw
// conclusions from that. A volume group that is missing or not readable is an
// error of its own, never errNotFound.
//
// Volumes that are being deleted are found too; see checkAlive.
func (d *Driver) lookup(ctx context.Context, id string) (volume, error) {
	var ref lvm.Ref
	if !isInlineHandle(id) {
		var err error
		if ref, err = parseVolumeID(id); err != nil {
			return volume{}, err
		}
	}
	find := func(inv *inventory) (volume, error) {
		if isInlineHandle(id) {
			return inv.lookupInline(id)
		}
		return inv.lookupRef(ref)
	}
	inv, err := d.inventory(ctx)
	if err != nil {
		return volume{}, err
	}
	v, err := find(inv)
	if err == nil {
		return v, nil
	}
	if inv, err = d.freshInventory(ctx); err != nil {
		return volume{}, err
	}
	return find(inv)
}

func (inv *inventory) lookupRef(ref lvm.Ref) (volume, error) {
	if v, ok := inv.find(ref); ok && v.EphemeralPodUID == "" {
		return v, nil
	}
	if err, bad := inv.unreadable[ref]; bad {
		return volume{}, err
	}
	if err, bad := inv.state.Problems[ref.VolumeGroup]; bad {
		return volume{}, fmt.Errorf("volume %s: %w", ref, err)
	}
	if _, known := inv.state.VolumeGroup(ref.VolumeGroup); !known {
		return volume{}, volumeGroupNotOurs.errorf(ref, ref.VolumeGroup)
	}
	return volume{}, fmt.Errorf("%w: %s", errNotFound, ref)
}

// lookupInline finds an inline volume by its handle. Not finding it means
// nothing while a volume group cannot be read.
func (inv *inventory) lookupInline(handle string) (volume, error) {
	if found := inv.named(handle, true); len(found) > 0 {
		return found[0], nil
	}
	for vg, err := range inv.state.Problems {
		return volume{}, fmt.Errorf("inline volume %s may be in volume group %s: %w", handle, vg, err)
	}
	return volume{}, fmt.Errorf("%w: inline volume %s", errNotFound, handle)
}

// checkAlive refuses a volume that is being deleted.
func checkAlive(v volume) error {
	if v.State == stateDeleting {
		return volumeIsDeleting.errorf(v.ID())
	}
	return nil
}
