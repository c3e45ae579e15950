package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
	mountutils "k8s.io/mount-utils"
	utilexec "k8s.io/utils/exec"
)

// mounter is the [Mounter] of a real node.
type mounter struct {
	exec   utilexec.Interface
	sysDir string
}

var _ Mounter = (*mounter)(nil)

// NewMounter returns the Mounter that works on this machine: system calls where
// they do, else the programs blkid, mkfs.*, mount, e2fsck, resize2fs,
// xfs_growfs and btrfs from PATH. It needs CAP_SYS_ADMIN.
func NewMounter() Mounter { return &mounter{exec: utilexec.New(), sysDir: "/sys"} }

// Mounts reads /proc/self/mountinfo.
func (m *mounter) Mounts() ([]Mount, error) { return readMountTable(m.sysDir) }

// MissingTools looks for the programs in PATH.
func (m *mounter) MissingTools(fsType string) []string {
	var missing []string
	for _, program := range toolsOf(fsType) {
		if _, err := m.exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	return missing
}

// toolsOf are all programs that the methods below run for a file system.
func toolsOf(fsType string) []string {
	switch fsType {
	case "ext4":
		return []string{"blkid", "mkfs.ext4", "mount", "e2fsck", "resize2fs"}
	case "xfs":
		return []string{"blkid", "mkfs.xfs", "mount", "xfs_growfs"}
	default:
		return []string{"blkid", "mkfs.btrfs", "mount", "btrfs"}
	}
}

// Probe runs blkid.
func (m *mounter) Probe(ctx context.Context, device string) (string, error) {
	found, err := (&mountutils.SafeFormatAndMount{Exec: m.exec}).GetDiskFormat(device)
	if err != nil {
		return "", fmt.Errorf("probe %s: %w", device, err)
	}
	klog.FromContext(ctx).V(4).Info("Probed", "device", device, "found", found)
	return found, nil
}

// Format runs mkfs.<fsType>.
func (m *mounter) Format(ctx context.Context, device, fsType string, options []string) error {
	program, args := mkfsCommand(device, fsType, options)
	return m.run(ctx, program, args...)
}

// Mount runs mount, after e2fsck where that is needed.
func (m *mounter) Mount(ctx context.Context, device, target, fsType string, options []string) error {
	if fsType == "ext4" && !slices.Contains(options, "ro") {
		if err := m.repair(ctx, device); err != nil {
			return err
		}
	}
	if err := mountutils.NewWithoutSystemd("").Mount(device, target, fsType, options); err != nil {
		return fmt.Errorf("mount %s: %w", device, err)
	}
	klog.FromContext(ctx).V(2).Info("Mounted", "device", device, "path", target, "fsType", fsType, "options", options)
	return nil
}

// repair runs e2fsck in its careful mode on an ext4 that says it is damaged. A
// journal that must be replayed is no damage; the kernel replays it at mount.
func (m *mounter) repair(ctx context.Context, device string) error {
	s, _, err := readSuperblock(device, "ext4")
	if err != nil || !s.hasErrors {
		// Without a readable superblock the mount itself gives the better error.
		return nil
	}
	const corrected, uncorrected = 1, 4 // e2fsck(8), EXIT CODE
	out, err := m.exec.Command("e2fsck", "-p", device).CombinedOutput()
	var exit utilexec.ExitError
	switch {
	case err == nil, errors.As(err, &exit) && exit.ExitStatus() < uncorrected:
		klog.FromContext(ctx).Info("Repaired a file system that had noted errors", "device", device, "output", firstLines(out))
		return nil
	default:
		return fmt.Errorf("the ext4 on %s is damaged and e2fsck -p could not repair it (exit codes above %d need e2fsck by hand): %w: %s",
			device, corrected, err, firstLines(out))
	}
}

// Grow runs the tool of the file system if the superblock leaves room on the device.
func (m *mounter) Grow(ctx context.Context, device, mountPoint, fsType string) error {
	s, deviceBytes, err := readSuperblock(device, fsType)
	if err != nil {
		return err
	}
	if s.fills(deviceBytes) {
		return nil
	}
	switch fsType {
	case "ext4":
		return m.run(ctx, "resize2fs", device)
	case "xfs":
		// xfs_growfs takes a mount point only; given a device it would guess.
		return m.run(ctx, "xfs_growfs", "-d", mountPoint)
	default:
		return m.run(ctx, "btrfs", "filesystem", "resize", "max", mountPoint)
	}
}

// Statfs is statfs(2).
func (m *mounter) Statfs(path string) (FilesystemUsage, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return FilesystemUsage{}, fmt.Errorf("statfs %s: %w", path, err)
	}
	errorCount, err := m.errorsOf(path, s.Type)
	if err != nil {
		return FilesystemUsage{}, err
	}
	unit := s.Frsize
	if unit == 0 {
		unit = s.Bsize
	}
	return FilesystemUsage{
		TotalBytes:      int64(s.Blocks) * unit,
		AvailableBytes:  int64(s.Bavail) * unit,
		UsedBytes:       int64(s.Blocks-s.Bfree) * unit,
		TotalInodes:     int64(s.Files),
		AvailableInodes: int64(s.Ffree),
		UsedInodes:      int64(s.Files - s.Ffree),
		Errors:          errorCount,
	}, nil
}

// errorsOf reads the count that ext4 shows in sysfs.
func (m *mounter) errorsOf(path string, fsType int64) (int64, error) {
	if fsType != unix.EXT4_SUPER_MAGIC {
		return 0, nil
	}
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		// A file system that has failed altogether may refuse even this.
		return 1, nil
	}
	device, err := filepath.EvalSymlinks(filepath.Join(m.sysDir, fmt.Sprintf("dev/block/%d:%d", unix.Major(s.Dev), unix.Minor(s.Dev))))
	if err != nil {
		return 0, fmt.Errorf("device of %s: %w", path, err)
	}
	text, err := os.ReadFile(filepath.Join(m.sysDir, "fs/ext4", filepath.Base(device), "errors_count"))
	if err != nil {
		return 0, fmt.Errorf("errors of the ext4 at %s: %w", path, err)
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// run runs a tool to its end and returns its words if it fails.
func (m *mounter) run(ctx context.Context, program string, args ...string) error {
	out, err := m.exec.Command(program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, firstLines(out))
	}
	klog.FromContext(ctx).V(2).Info("Ran", "command", program, "args", args)
	return nil
}

// firstLines makes a tool's output fit into an error.
func firstLines(out []byte) string {
	const most = 1000
	text := strings.TrimSpace(string(out))
	if len(text) > most {
		text = text[:most] + " ..."
	}
	return strings.ReplaceAll(text, "\n", "; ")
}
