package drivertest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/csi-local/csi-local/pkg/driver"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
)

// Kernel is the mount table of one machine. It survives the processes that
// mount in it; see [Kernel.Mounter]. All methods may be called from any goroutine.
type Kernel struct {
	machine *lvmfake.Machine

	mu      sync.Mutex // guards the rest
	mounts  []mounted
	busy    map[string]bool
	blank   map[driver.DeviceNumber]bool
	formats map[lvm.Ref]int
	grown   map[lvm.Ref]int
}

// mounted is a line of the mount table and the volume behind it.
type mounted struct {
	driver.Mount
	ref lvm.Ref
}

// NewKernel makes an empty mount table on the machine.
func NewKernel(machine *lvmfake.Machine) *Kernel {
	return &Kernel{
		machine: machine, busy: map[string]bool{}, blank: map[driver.DeviceNumber]bool{},
		formats: map[lvm.Ref]int{}, grown: map[lvm.Ref]int{},
	}
}

// Mounts returns the mount table.
func (k *Kernel) Mounts() []driver.Mount {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []driver.Mount
	for _, m := range k.mounts {
		m.Options, m.SuperOptions = slices.Clone(m.Options), slices.Clone(m.SuperOptions)
		out = append(out, m.Mount)
	}
	return out
}

// SetBusy makes unmounting path fail with EBUSY, as while a process works in it.
func (k *Kernel) SetBusy(path string, busy bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.busy[path] = busy
}

// SetBlank makes a probe of the device see nothing, as blkid does of a device
// that cannot be read or is not there.
func (k *Kernel) SetBlank(number driver.DeviceNumber, blank bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.blank[number] = blank
}

// FailFilesystem makes the mounted file system read-only, as the kernel does
// after errors.
func (k *Kernel) FailFilesystem(number driver.DeviceNumber) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.mounts {
		if m := &k.mounts[i]; m.Device == number && !m.Block {
			m.SuperOptions = slices.Clone(m.SuperOptions)
			m.SuperOptions[0] = "ro"
		}
	}
}

// AddMount adds a mount that nobody under test made.
func (k *Kernel) AddMount(m driver.Mount) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mounts = append(k.mounts, mounted{Mount: m})
}

// Formats tells how often a file system was made on the volume.
func (k *Kernel) Formats(ref lvm.Ref) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.formats[ref]
}

// Growths tells how often a tool grew the volume's file system.
func (k *Kernel) Growths(ref lvm.Ref) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.grown[ref]
}

// Reboot unmounts all and makes every volume inactive. Files and folders at
// staging and target paths stay, as they do on a disk.
func (k *Kernel) Reboot() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mounts, k.busy = nil, map[string]bool{}
	return k.machine.Reboot()
}

// node is a device node: the file that a path leads to.
type node struct {
	path   string
	number driver.DeviceNumber
	ref    lvm.Ref
}

// nodeAt finds the device node at path: one of lvmfake's, whose names end in the
// minor number, or one that is bound there. The caller holds mu.
func (k *Kernel) nodeAt(path string) (node, error) {
	if m, ok := k.at(path); ok && m.Block {
		return node{path: m.Source, number: m.Device, ref: m.ref}, nil
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return node{}, fmt.Errorf("%s: %w", path, unix.ENOENT)
	}
	minor, ok := strings.CutPrefix(filepath.Base(resolved), "dm-")
	number, err := strconv.Atoi(minor)
	if !ok || err != nil {
		return node{}, fmt.Errorf("%s: %w", path, unix.ENOTBLK)
	}
	return node{
		path:   resolved,
		number: driver.DeviceNumber{Major: lvmfake.Major, Minor: number},
		ref:    k.machine.VolumeOf(lvmfake.Major, number),
	}, nil
}

// at returns the mount that is seen at path. The caller holds mu.
func (k *Kernel) at(path string) (mounted, bool) {
	for i := len(k.mounts) - 1; i >= 0; i-- {
		if k.mounts[i].Path == path {
			return k.mounts[i], true
		}
	}
	return mounted{}, false
}

// filesystem returns a mount of the file system on the device. The caller holds mu.
func (k *Kernel) filesystem(number driver.DeviceNumber) (mounted, bool) {
	for _, m := range k.mounts {
		if m.Device == number && !m.Block {
			return m, true
		}
	}
	return mounted{}, false
}

// attach adds a mount, whose file system has its device open. The caller holds mu.
func (k *Kernel) attach(m mounted) error {
	k.mounts = append(k.mounts, m)
	if m.Block {
		return nil
	}
	return k.machine.SetOpen(m.ref, 1)
}

// detach takes the uppermost mount at path away. The caller holds mu.
func (k *Kernel) detach(path string) error {
	m, ok := k.at(path)
	if !ok {
		return fmt.Errorf("%s: %w", path, unix.EINVAL)
	}
	below := slices.ContainsFunc(k.mounts, func(o mounted) bool { return strings.HasPrefix(o.Path, path+"/") })
	if k.busy[path] || below {
		return fmt.Errorf("%s: %w", path, unix.EBUSY)
	}
	for i := len(k.mounts) - 1; i >= 0; i-- {
		if k.mounts[i].Path == path {
			k.mounts = slices.Delete(k.mounts, i, i+1)
			break
		}
	}
	if _, still := k.filesystem(m.Device); m.Block || still || m.ref == (lvm.Ref{}) {
		return nil
	}
	err := k.machine.SetOpen(m.ref, 0)
	if errors.Is(err, lvm.ErrVolumeGroupMissing) || errors.Is(err, lvm.ErrNotFound) {
		return nil // pulled out under the file system
	}
	return err
}

// checkTarget wants what mount(2) wants: something to mount on, of the same kind.
func checkTarget(path string, wantDir bool) error {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", path, unix.ENOENT)
	case info.IsDir() != wantDir:
		return fmt.Errorf("%s: %w", path, unix.ENOTDIR)
	}
	return nil
}
