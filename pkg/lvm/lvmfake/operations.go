package lvmfake

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// Create makes a volume with its tags and leaves it inactive.
func (l *LVM) Create(ctx context.Context, req lvm.CreateRequest) (lvm.LogicalVolume, error) {
	if err := req.Validate(); err != nil {
		return lvm.LogicalVolume{}, l.fail(Call{Op: OpCreate, Ref: req.Ref}, err)
	}
	return l.returning(ctx, Call{Op: OpCreate, Ref: req.Ref, Add: req.Tags}, func(m *Machine, g *group) error {
		return m.create(g, req)
	})
}

// CreateThinPool makes an active thin pool that zeroes new blocks.
func (l *LVM) CreateThinPool(ctx context.Context, req lvm.ThinPoolRequest) (lvm.LogicalVolume, error) {
	if err := req.Validate(); err != nil {
		return lvm.LogicalVolume{}, l.fail(Call{Op: OpCreateThinPool, Ref: req.Ref}, err)
	}
	return l.returning(ctx, Call{Op: OpCreateThinPool, Ref: req.Ref, Add: req.Tags}, func(m *Machine, g *group) error {
		return m.createPool(g, req)
	})
}

// Remove deactivates and removes a volume.
func (l *LVM) Remove(ctx context.Context, ref lvm.Ref) error {
	return l.change(ctx, Call{Op: OpRemove, Ref: ref}, func(m *Machine, g *group) error {
		v, err := g.writable(ref)
		if err != nil {
			return err
		}
		return m.remove(g, v)
	})
}

// Extend makes a volume at least sizeBytes big; one that is big enough is left alone.
func (l *LVM) Extend(ctx context.Context, ref lvm.Ref, sizeBytes int64) (lvm.LogicalVolume, error) {
	return l.returning(ctx, Call{Op: OpExtend, Ref: ref}, func(m *Machine, g *group) error {
		v, err := g.volume(ref)
		if err != nil {
			return err
		}
		return m.extend(g, v, sizeBytes)
	})
}

// Activate makes the device node appear.
func (l *LVM) Activate(ctx context.Context, ref lvm.Ref) (lvm.LogicalVolume, error) {
	return l.returning(ctx, Call{Op: OpActivate, Ref: ref}, func(m *Machine, g *group) error {
		v, err := g.volume(ref)
		if err != nil {
			return err
		}
		if v.partial() {
			return fmt.Errorf("%w: Refusing activation of partial LV %s", lvm.ErrPhysicalVolumeMissing, ref)
		}
		if v.pool.NeedsCheck {
			return fmt.Errorf("%w: Check of pool %s failed. Manual repair required!", lvm.ErrThinPoolRepair, ref)
		}
		if pool := g.volumes[v.thinPool]; pool != nil {
			if pool.pool.NeedsCheck {
				return fmt.Errorf("%w: Check of pool %s/%s failed. Manual repair required!", lvm.ErrThinPoolRepair, g.name, pool.name)
			}
			if err := m.activate(g, pool); err != nil {
				return err
			}
		}
		return m.activate(g, v)
	})
}

// Deactivate makes the device go away.
func (l *LVM) Deactivate(ctx context.Context, ref lvm.Ref) error {
	return l.change(ctx, Call{Op: OpDeactivate, Ref: ref}, func(m *Machine, g *group) error {
		v, err := g.volume(ref)
		if err != nil {
			return err
		}
		if err := g.unused(v); err != nil {
			return err
		}
		return m.deactivate(g, v)
	})
}

// Rename gives a volume a new name in the same volume group.
func (l *LVM) Rename(ctx context.Context, ref lvm.Ref, newName string) error {
	c := Call{Op: OpRename, Ref: ref}
	if err := (lvm.Ref{VolumeGroup: ref.VolumeGroup, Name: newName}).ValidateNew(); err != nil {
		return l.fail(c, err)
	}
	return l.change(ctx, c, func(m *Machine, g *group) error {
		v, err := g.writable(ref)
		if err != nil {
			return err
		}
		if g.volumes[newName] != nil {
			return fmt.Errorf("%w: %s", lvm.ErrExists, newName)
		}
		return m.rename(g, v, newName)
	})
}

// ChangeTags adds and removes tags in one command.
func (l *LVM) ChangeTags(ctx context.Context, ref lvm.Ref, add, remove []string) error {
	return l.changeTags(ctx, ref, add, remove, false)
}

// ChangeTagsUnlessOrigin is ChangeTags for a volume without thick snapshots.
func (l *LVM) ChangeTagsUnlessOrigin(ctx context.Context, ref lvm.Ref, add, remove []string) error {
	return l.changeTags(ctx, ref, add, remove, true)
}

func (l *LVM) changeTags(ctx context.Context, ref lvm.Ref, add, remove []string, unlessOrigin bool) error {
	c := Call{Op: OpChangeTags, Ref: ref, Add: add, Remove: remove}
	if err := lvm.ValidateTags(slices.Concat(add, remove)); err != nil {
		return l.fail(c, err)
	}
	if len(add)+len(remove) == 0 {
		return l.fail(c, fmt.Errorf("%w: no tags to change", lvm.ErrInvalid))
	}
	return l.change(ctx, c, func(_ *Machine, g *group) error {
		v, err := g.writable(ref)
		if err == nil && unlessOrigin {
			err = g.noOrigin(v)
		}
		if err != nil {
			return err
		}
		v.tags = slices.DeleteFunc(slices.Clone(v.tags), func(tag string) bool { return slices.Contains(remove, tag) })
		v.tags = sortedTags(append(v.tags, add...))
		return nil
	})
}

func sortedTags(tags []string) []string { return slices.Compact(slices.Sorted(slices.Values(tags))) }

// change runs effect on the volume group of the call, in its turn.
func (l *LVM) change(ctx context.Context, c Call, effect func(*Machine, *group) error) error {
	if err := c.Ref.Validate(); err != nil {
		return l.fail(c, err)
	}
	return l.inTurn(ctx, c, func() error {
		m := l.machine
		m.mu.Lock()
		defer m.mu.Unlock()
		g, err := l.group(c.Ref.VolumeGroup)
		if err != nil {
			return err
		}
		sequence := g.sequence
		if err := effect(m, g); errors.Is(err, errNoExtents) {
			return &lvm.Error{Kind: lvm.ErrNoSpace, Op: string(c.Op), Object: c.Ref.String(), ExitCode: 5, Messages: []string{err.Error()}}
		} else if err != nil {
			return err
		}
		if c.Op != OpActivate && c.Op != OpDeactivate {
			g.sequence = sequence + 1
		}
		return nil
	})
}

// returning is change that returns the volume as it is afterwards.
func (l *LVM) returning(ctx context.Context, c Call, effect func(*Machine, *group) error) (lvm.LogicalVolume, error) {
	var lv lvm.LogicalVolume
	err := l.change(ctx, c, func(m *Machine, g *group) error {
		if err := effect(m, g); err != nil {
			return err
		}
		lv = m.reportVolume(g, g.volumes[c.Ref.Name])
		return nil
	})
	if err != nil {
		return lvm.LogicalVolume{}, err
	}
	return lv, nil
}

// group is the volume group that the client means by name. The caller holds the machine's lock.
func (l *LVM) group(name string) (*group, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, want := range l.wanted {
		if want.Name == name {
			return l.find(want)
		}
	}
	return nil, groupError(lvm.ErrVolumeGroupMissing, name, "it is not among the configured volume groups")
}
