package driver

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// readMountTable reads the mount table of this process. sysDir is where sysfs is.
// Since Linux 5.8 a table that changes while it is read lacks no line that was
// there all the time.
func readMountTable(sysDir string) ([]Mount, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	return parseMountTable(text, sysDir)
}

// parseMountTable understands proc_pid_mountinfo(5), and asks the file system
// for the device behind those mounts whose line does not have it.
func parseMountTable(text []byte, sysDir string) ([]Mount, error) {
	lines, err := mountinfo.GetMountsFromReader(bytes.NewReader(text), nil)
	if err != nil {
		return nil, fmt.Errorf("parse the mount table: %w", err)
	}
	mounts := make([]Mount, 0, len(lines))
	for _, line := range lines {
		m := Mount{
			Path:         line.Mountpoint,
			Root:         line.Root,
			FSType:       line.FSType,
			Source:       line.Source,
			Options:      strings.Split(line.Options, ","),
			SuperOptions: strings.Split(line.VFSOptions, ","),
			Device:       noDevice(),
		}
		switch m.FSType {
		case "devtmpfs", "tmpfs":
			// A device node that was bound somewhere: its line shows the file
			// system that the node is in. Looking at it cannot block.
			if number, ok := blockDeviceAt(m.Path, os.Lstat); ok {
				m.Device, m.Block = number, true
			}
		case "btrfs":
			// btrfs gives each subvolume a number of its own that no device has.
			if number, ok := deviceOfSource(m.Source, sysDir); ok {
				m.Device = number
			}
		default:
			if line.Major != 0 {
				m.Device = DeviceNumber{Major: line.Major, Minor: line.Minor}
			}
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

// deviceOfSource finds the device that a mount's source names, by its node or,
// if that was removed, by the name that device mapper has for it.
func deviceOfSource(source, sysDir string) (DeviceNumber, bool) {
	if number, ok := blockDeviceAt(source, os.Stat); ok {
		return number, true
	}
	name := filepath.Base(source)
	if number, ok := deviceInSysfs(filepath.Join(sysDir, "class/block", name)); ok {
		return number, true
	}
	// <dev>/mapper/<name>, or LVM's <dev>/<volume group>/<logical volume>.
	mapped := mapperName(filepath.Base(filepath.Dir(source)), name)
	files, err := filepath.Glob(filepath.Join(sysDir, "class/block/dm-*/dm/name"))
	if err != nil {
		return DeviceNumber{}, false
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if known := strings.TrimSpace(string(text)); err == nil && (known == name || known == mapped) {
			return deviceInSysfs(filepath.Dir(filepath.Dir(file)))
		}
	}
	return DeviceNumber{}, false
}

// mapperName is the name that device mapper has for a logical volume.
func mapperName(volumeGroup, logicalVolume string) string {
	double := func(name string) string { return strings.ReplaceAll(name, "-", "--") }
	return double(volumeGroup) + "-" + double(logicalVolume)
}

func deviceInSysfs(dir string) (DeviceNumber, bool) {
	text, err := os.ReadFile(filepath.Join(dir, "dev"))
	if err != nil {
		return DeviceNumber{}, false
	}
	major, minor, _ := strings.Cut(strings.TrimSpace(string(text)), ":")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	return DeviceNumber{Major: a, Minor: b}, errA == nil && errB == nil
}

// blockDeviceAt returns the number of the block device at path. stat is os.Stat
// or os.Lstat.
func blockDeviceAt(path string, stat func(string) (os.FileInfo, error)) (DeviceNumber, bool) {
	info, err := stat(path)
	if err != nil || info.Mode()&os.ModeDevice == 0 || info.Mode()&os.ModeCharDevice != 0 {
		return DeviceNumber{}, false
	}
	raw, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return DeviceNumber{}, false
	}
	return DeviceNumber{Major: int(unix.Major(raw.Rdev)), Minor: int(unix.Minor(raw.Rdev))}, true
}
