package driver

import (
	"context"
	"slices"
)

// Mounter is what the node service needs of the kernel's mount table and of the
// file system tools. [NewMounter] is the real one, drivertest.Mounter works in
// memory.
//
// All methods may be called at any time from any goroutine. A context carries
// the logger only: what has begun is never given up half-way, because a killed
// mkfs or mount leaves a state that nobody can name. Calls can therefore take
// as long as the device takes; callers that must answer earlier use [operations].
type Mounter interface {
	// Mounts returns the mount table, in the order of the kernel: of several
	// mounts on one path the last is the one that is seen.
	Mounts() ([]Mount, error)
	// MissingTools names the programs that file systems of this type need and that
	// are not installed; nil if all are.
	MissingTools(fsType string) []string
	// Probe names what is on the device: a file system ("ext4"), another
	// signature ("LVM2_member", "crypto_LUKS", a partition table), or "" for none.
	// Like blkid(8), it says "" for a path that does not exist too, so the
	// caller must have checked the device first.
	Probe(ctx context.Context, device string) (string, error)
	// Format makes a file system. It overwrites nothing that it recognises.
	Format(ctx context.Context, device, fsType string, options []string) error
	// Mount mounts the device's file system on the directory target. An ext4
	// that has noted errors in itself is repaired first, unless options has "ro".
	Mount(ctx context.Context, device, target, fsType string, options []string) error
	// Bind makes source, a directory or device node, appear at target, with the
	// per-mount options added to those that source's mount has. Target must
	// exist and be of the same kind. Target is never seen without the options.
	Bind(ctx context.Context, source, target string, options []string) error
	// Unmount removes the uppermost mount at target. The error matches
	// unix.EBUSY while it is in use and unix.EINVAL if there is no mount.
	Unmount(ctx context.Context, target string) error
	// Grow makes the mounted file system as large as its device. If it is
	// already, no process is started.
	Grow(ctx context.Context, device, mountPoint, fsType string) error
	// Statfs tells how full the file system at path is; see statfs(2).
	Statfs(path string) (FilesystemUsage, error)
}

// DeviceNumber is the kernel's number of a block device.
type DeviceNumber struct{ Major, Minor int }

// Mount is one line of the mount table.
type Mount struct {
	// Path is where it is mounted, without escapes.
	Path string
	// Root is the folder (or device node) of the file system that is seen at Path.
	Root string
	// FSType, Source, Options and SuperOptions are as in proc_pid_mountinfo(5):
	// Options hold for this mount, SuperOptions for the file system.
	FSType, Source        string
	Options, SuperOptions []string
	// Device is the block device that Path gives access to: the one that the
	// file system is on or, if Block is set, the one whose node is bound to Path.
	// {-1,-1} if it is not known, as for file systems without a device.
	Device DeviceNumber
	// Block tells that Path is a device node.
	Block bool
}

// ReadOnly tells whether writes through this mount are refused.
func (m Mount) ReadOnly() bool {
	return slices.Contains(m.Options, "ro") || slices.Contains(m.SuperOptions, "ro")
}

// FilesystemUsage is how full a file system is. Inodes are 0 for file systems
// that have no fixed number of them (btrfs).
type FilesystemUsage struct {
	TotalBytes, AvailableBytes, UsedBytes    int64
	TotalInodes, AvailableInodes, UsedInodes int64
	// Errors is how many errors the file system has noted in itself since it was
	// checked last; always 0 for others than ext4.
	Errors int64
}

// noDevice is the device number of a mount that has none.
func noDevice() DeviceNumber { return DeviceNumber{Major: -1, Minor: -1} }

// mountTable answers questions about one reading of the mount table.
type mountTable []Mount

// at returns the mount that is seen at path.
func (t mountTable) at(path string) (Mount, bool) {
	for i := len(t) - 1; i >= 0; i-- {
		if t[i].Path == path {
			return t[i], true
		}
	}
	return Mount{}, false
}

// of returns all mounts of the device, whatever part of it they show.
func (t mountTable) of(device DeviceNumber) []Mount {
	var found []Mount
	for _, m := range t {
		if device.Major >= 0 && m.Device == device {
			found = append(found, m)
		}
	}
	return found
}

// failed tells that the kernel made the file system read-only by itself, after
// errors: a mount that was asked to be read-only shows it in both options. ext4
// of Linux 6.14 and newer says so in words; between 6.12 and that it shows
// nothing (see FilesystemUsage.Errors).
func (m Mount) failed() bool {
	if slices.Contains(m.SuperOptions, "emergency_ro") || slices.Contains(m.SuperOptions, "shutdown") {
		return true
	}
	return slices.Contains(m.SuperOptions, "ro") && !slices.Contains(m.Options, "ro")
}
