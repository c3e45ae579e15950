package drivertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/csi-local/csi-local/pkg/driver"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
)

// Op is a method of [driver.Mounter].
type Op string

const (
	OpProbe   Op = "Probe"
	OpFormat  Op = "Format"
	OpMount   Op = "Mount"
	OpBind    Op = "Bind"
	OpUnmount Op = "Unmount"
	OpGrow    Op = "Grow"
	OpStatfs  Op = "Statfs"
)

// Call is one moment of one operation.
type Call struct {
	Op    Op
	Phase lvmfake.Phase // Before or After
	// Path is the mount point, or the device of OpProbe and OpFormat.
	Path string
}

// Hook is called before and after each operation. Before: its error is returned
// instead of doing it; after: in spite of having done it. While it blocks, the
// operation hangs. [lvmfake.ErrCrash] stops the process' mounter for good.
type Hook func(Call) error

// Mounter is one process' view of a [Kernel].
type Mounter struct {
	kernel *Kernel

	mu    sync.Mutex // guards the rest; not held while a hook runs
	hook  Hook
	dead  bool
	calls []Call
}

var _ driver.Mounter = (*Mounter)(nil)

// Mounter returns the view of a new process. The hook may be nil.
func (k *Kernel) Mounter(hook Hook) *Mounter { return &Mounter{kernel: k, hook: hook} }

// SetHook replaces the hook; nil takes it away.
func (m *Mounter) SetHook(hook Hook) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hook = hook
}

// Calls returns all that was called so far, in order.
func (m *Mounter) Calls() []Call {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.calls)
}

// between runs effect between the hooks, with the kernel's lock.
func (m *Mounter) between(op Op, path string, effect func() error) error {
	if err := m.call(Call{op, lvmfake.Before, path}); err != nil {
		return err
	}
	m.kernel.mu.Lock()
	err := effect()
	m.kernel.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", strings.ToLower(string(op)), err)
	}
	return m.call(Call{op, lvmfake.After, path})
}

func (m *Mounter) call(c Call) error {
	m.mu.Lock()
	m.calls = append(m.calls, c)
	hook, dead := m.hook, m.dead
	m.mu.Unlock()
	if dead {
		return lvmfake.ErrCrash
	}
	if hook == nil {
		return nil
	}
	err := hook(c)
	if errors.Is(err, lvmfake.ErrCrash) {
		m.mu.Lock()
		m.dead = true
		m.mu.Unlock()
	}
	return err
}

// Mounts returns the mount table; a crashed process sees nothing any more.
func (m *Mounter) Mounts() ([]driver.Mount, error) {
	m.mu.Lock()
	dead := m.dead
	m.mu.Unlock()
	if dead {
		return nil, lvmfake.ErrCrash
	}
	return m.kernel.Mounts(), nil
}

// MissingTools: all are there.
func (m *Mounter) MissingTools(string) []string { return nil }

// Probe looks for the signatures of file systems, LUKS and LVM.
func (m *Mounter) Probe(_ context.Context, device string) (found string, err error) {
	err = m.between(OpProbe, device, func() error {
		n, err := m.kernel.nodeAt(device)
		if err != nil || m.kernel.blank[n.number] {
			return nil // as blkid: what is not there or cannot be read has no signature
		}
		found, err = probe(n.path)
		return err
	})
	return found, err
}

// Format writes a superblock and zeros everything else.
func (m *Mounter) Format(_ context.Context, device, fsType string, options []string) error {
	return m.between(OpFormat, device, func() error {
		n, err := m.kernel.nodeAt(device)
		if err != nil {
			return err
		}
		if _, mounted := m.kernel.filesystem(n.number); mounted {
			return fmt.Errorf("%s is mounted: %w", device, unix.EBUSY)
		}
		if found, err := probe(n.path); err != nil || found != "" {
			return errors.Join(err, fmt.Errorf("%s appears to contain %s", device, found))
		}
		if slices.Contains(options, "-bad-option") {
			return errors.New("invalid option")
		}
		m.kernel.formats[n.ref]++
		return format(n.path, fsType)
	})
}

// Mount adds a mount of the device's file system.
func (m *Mounter) Mount(_ context.Context, device, target, fsType string, options []string) error {
	return m.between(OpMount, target, func() error {
		if err := checkTarget(target, true); err != nil {
			return err
		}
		n, err := m.kernel.nodeAt(device)
		if err != nil {
			return err
		}
		if found, err := probe(n.path); err != nil || found != fsType || m.kernel.blank[n.number] {
			return errors.Join(err, fmt.Errorf("%s: wrong fs type, bad option, bad superblock: %w", device, unix.EINVAL))
		}
		perMount, super, err := splitOptions(options)
		if err != nil {
			return err
		}
		if other, ok := m.kernel.filesystem(n.number); ok && other.SuperOptions[0] != super[0] {
			return fmt.Errorf("%s is mounted with another of ro and rw: %w", device, unix.EBUSY)
		}
		return m.kernel.attach(mounted{ref: n.ref, Mount: driver.Mount{
			Path: target, Root: "/", FSType: fsType, Source: device,
			Options: perMount, SuperOptions: super, Device: n.number,
		}})
	})
}

// Bind copies the mount at source, or adds one of a device node.
func (m *Mounter) Bind(_ context.Context, source, target string, options []string) error {
	return m.between(OpBind, target, func() error {
		from, ok := m.kernel.at(source)
		if !ok {
			n, err := m.kernel.nodeAt(source)
			if err != nil {
				return err
			}
			from = mounted{ref: n.ref, Mount: driver.Mount{
				Root: "/" + n.path, FSType: "devtmpfs", Source: n.path, Device: n.number, Block: true,
				Options: []string{"rw", "relatime"}, SuperOptions: []string{"rw"},
			}}
		}
		if err := checkTarget(target, !from.Block); err != nil {
			return err
		}
		from.Path, from.Options = target, slices.Clone(from.Options)
		for _, option := range options {
			switch {
			case option == "ro":
				from.Options[0] = "ro"
			case !slices.Contains(from.Options, option):
				from.Options = append(from.Options, option)
			}
		}
		return m.kernel.attach(from)
	})
}

// Unmount removes the uppermost mount at target.
func (m *Mounter) Unmount(_ context.Context, target string) error {
	return m.between(OpUnmount, target, func() error { return m.kernel.detach(target) })
}

// Grow sets the size in the superblock, if it is not that of the device.
func (m *Mounter) Grow(_ context.Context, device, mountPoint, fsType string) error {
	return m.between(OpGrow, mountPoint, func() error {
		n, err := m.kernel.nodeAt(device)
		if err != nil {
			return err
		}
		at, ok := m.kernel.at(mountPoint)
		switch {
		case !ok || at.Device != n.number || at.Block:
			return fmt.Errorf("%s is no mount point of %s", mountPoint, device)
		case at.ReadOnly():
			return fmt.Errorf("%s: %w", mountPoint, unix.EROFS)
		}
		before, err := superblockSize(n.path, fsType)
		if err != nil {
			return err
		}
		if err := grow(n.path, fsType); err != nil {
			return err
		}
		if after, err := superblockSize(n.path, fsType); err != nil || after != before {
			m.kernel.grown[at.ref]++
			return err
		}
		return nil
	})
}

// hostDiskBytes is the size of the file system that kubelet's folders are on.
const hostDiskBytes = 1 << 50

// Statfs gives the size in the superblock, with 1 MiB used. A path that is no
// mount point is on the host's disk.
func (m *Mounter) Statfs(path string) (usage driver.FilesystemUsage, err error) {
	err = m.between(OpStatfs, path, func() error {
		at, ok := m.kernel.at(path)
		if !ok {
			usage = driver.FilesystemUsage{TotalBytes: hostDiskBytes, UsedBytes: hostDiskBytes, Errors: 1}
			_, err := os.Lstat(path)
			return err
		}
		n, err := m.kernel.nodeAt(at.Source)
		if err != nil {
			return err
		}
		const used, inodes = 1 << 20, 1000
		total, err := superblockSize(n.path, at.FSType)
		usage = driver.FilesystemUsage{
			TotalBytes: total, UsedBytes: used, AvailableBytes: total - used,
			TotalInodes: inodes, UsedInodes: 11, AvailableInodes: inodes - 11,
		}
		return err
	})
	return usage, err
}

// splitOptions sorts mount options as the kernel shows them: ro or rw first.
func splitOptions(options []string) (perMount, super []string, err error) {
	perMount, super = []string{"rw"}, []string{"rw"}
	for _, option := range options {
		switch option {
		case "ro":
			perMount[0], super[0] = "ro", "ro"
		case "rw":
		case "nodev", "nosuid", "noexec", "noatime", "nodiratime", "relatime", "strictatime":
			perMount = append(perMount, option)
		case "nouuid", "discard", "data=ordered", "data=journal", "errors=remount-ro":
			super = append(super, option)
		default:
			return nil, nil, fmt.Errorf("unknown option %q: %w", option, unix.EINVAL)
		}
	}
	if !slices.Contains(perMount, "noatime") && !slices.Contains(perMount, "relatime") {
		perMount = append(perMount, "relatime")
	}
	return perMount, super, nil
}
