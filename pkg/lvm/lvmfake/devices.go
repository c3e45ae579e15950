package lvmfake

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/csi-local/csi-local/pkg/lvm"
)

var (
	// ErrNoDevice: the machine has no device of this number, or none at this path.
	ErrNoDevice = errors.New("no such device")
	// ErrWrongDevice: the path is the device of another volume.
	ErrWrongDevice = errors.New("another device than expected")
)

// Files works on the regular files that are the machine's device nodes;
// blockdev.Device does, when it is told to take regular files.
type Files interface {
	SizeBytes(path string) (int64, error)
	ReadEnds(ctx context.Context, path string) error
	ClearEnds(ctx context.Context, path string) error
	Zero(ctx context.Context, path string, discard bool, progress func(doneBytes int64)) error
}

// Devices works on a machine's device nodes for one client: it calls that client's
// hook and stops when it crashes.
type Devices struct {
	lvm   *LVM
	files Files
}

// Devices returns what the client's process sees of the device nodes.
func (l *LVM) Devices(files Files) *Devices { return &Devices{lvm: l, files: files} }

// Check tells whether path leads to the device node with this number.
func (d *Devices) Check(path string, major, minor int) error {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("check device: %w", err)
	}
	m := d.lvm.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	for number, v := range m.minors {
		if v.content == "" || v.content != resolved {
			continue
		}
		if major != Major || minor != number {
			return fmt.Errorf("%w: %s is %d:%d, want %d:%d", ErrWrongDevice, path, Major, number, major, minor)
		}
		return nil
	}
	return fmt.Errorf("%w: %s is %s", ErrNoDevice, path, resolved)
}

// OpenCount is what Machine.SetOpen set.
func (d *Devices) OpenCount(major, minor int) (int, error) {
	ref, v := d.lvm.machine.byNumber(major, minor)
	if v == nil {
		return 0, fmt.Errorf("%w: %d:%d", ErrNoDevice, major, minor)
	}
	if err := d.lvm.call(context.Background(), Call{Op: OpOpenCount, Phase: Before, Ref: ref}); err != nil {
		return 0, err
	}
	d.lvm.machine.mu.Lock()
	defer d.lvm.machine.mu.Unlock()
	return v.open, nil
}

// SizeBytes is the size of the device.
func (d *Devices) SizeBytes(path string) (int64, error) { return d.files.SizeBytes(path) }

// ReadEnds reads both ends of the device.
func (d *Devices) ReadEnds(ctx context.Context, path string) error {
	return d.between(ctx, OpReadEnds, path, func(string) error { return d.files.ReadEnds(ctx, path) })
}

// ClearEnds clears the places of signatures.
func (d *Devices) ClearEnds(ctx context.Context, path string) error {
	return d.between(ctx, OpClearEnds, path, func(string) error { return d.files.ClearEnds(ctx, path) })
}

// Zero makes every byte of the device zero.
func (d *Devices) Zero(ctx context.Context, path string, discard bool, progress func(doneBytes int64)) error {
	return d.between(ctx, OpZero, path, func(resolved string) error {
		size, err := d.files.SizeBytes(resolved)
		if err != nil {
			return err
		}
		if err := punch(resolved, size/2); err != nil {
			return err
		}
		if progress != nil {
			progress(size / 2)
		}
		if err := d.lvm.call(ctx, Call{Op: OpZero, Phase: Halfway, Ref: d.lvm.machine.byNode(resolved)}); err != nil {
			return err
		}
		return d.files.Zero(ctx, resolved, discard, progress)
	})
}

// between runs effect between the hooks, on the device node that path leads to.
func (d *Devices) between(ctx context.Context, op Op, path string, effect func(resolved string) error) error {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("open device: %w", err)
	}
	c := Call{Op: op, Phase: Before, Ref: d.lvm.machine.byNode(resolved)}
	if err := d.lvm.call(ctx, c); err != nil {
		return err
	}
	if err := effect(resolved); err != nil {
		return err
	}
	c.Phase = After
	return d.lvm.call(ctx, c)
}

func (m *Machine) byNode(resolved string) lvm.Ref {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.groups {
		for _, v := range g.volumes {
			if v.content != "" && v.content == resolved {
				return lvm.Ref{VolumeGroup: g.name, Name: v.name}
			}
		}
	}
	return lvm.Ref{}
}

// VolumeOf names the volume whose device has this number; empty if there is none.
func (m *Machine) VolumeOf(major, minor int) lvm.Ref {
	ref, _ := m.byNumber(major, minor)
	return ref
}

func (m *Machine) byNumber(major, minor int) (lvm.Ref, *volume) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := m.minors[minor]
	if v == nil || major != Major {
		return lvm.Ref{}, nil
	}
	for _, g := range m.groups {
		if g.volumes[v.name] == v {
			return lvm.Ref{VolumeGroup: g.name, Name: v.name}, v
		}
	}
	return lvm.Ref{}, v
}
