package driver

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// perMountOption is a mount option that belongs to one mount, not to the file
// system: the only kind that a bind mount can have of its own.
type perMountOption struct {
	name string
	// set and clear are the attributes for mount_setattr(2).
	set, clear uint64
}

func perMountOptions() []perMountOption {
	const atime = unix.MOUNT_ATTR__ATIME
	return []perMountOption{
		{name: "ro", set: unix.MOUNT_ATTR_RDONLY},
		{name: "nosuid", set: unix.MOUNT_ATTR_NOSUID},
		{name: "nodev", set: unix.MOUNT_ATTR_NODEV},
		{name: "noexec", set: unix.MOUNT_ATTR_NOEXEC},
		{name: "nodiratime", set: unix.MOUNT_ATTR_NODIRATIME},
		{name: "noatime", set: unix.MOUNT_ATTR_NOATIME, clear: atime},
		{name: "relatime", set: unix.MOUNT_ATTR_RELATIME, clear: atime},
		{name: "strictatime", set: unix.MOUNT_ATTR_STRICTATIME, clear: atime},
	}
}

// isPerMount tells whether the option is one of perMountOptions.
func isPerMount(name string) bool {
	return slices.ContainsFunc(perMountOptions(), func(o perMountOption) bool { return o.name == name })
}

// mountOptions are the options of a request, one each, without repetitions and
// without those that mean "as usual".
type mountOptions []string

// parseMountOptions reads mount flags as they stand in a StorageClass: each may
// hold several, separated by commas. Options that would make another kind of
// mount than that of a volume on its path are refused.
func parseMountOptions(flags []string) (mountOptions, error) {
	var options mountOptions
	for _, flag := range flags {
		for option := range strings.SplitSeq(flag, ",") {
			option = strings.TrimSpace(option)
			name, _, _ := strings.Cut(option, "=")
			switch {
			case option == "" || option == "defaults" || slices.Contains(options, option):
			case isForbiddenOption(name):
				return nil, mountFlagForbidden.errorf(option)
			default:
				options = append(options, option)
			}
		}
	}
	if options.has("ro") && options.has("rw") {
		return nil, mountFlagsContradict.errorf()
	}
	return options, nil
}

// isForbiddenOption names the options with which mount(8) does something else
// than mount this device here, or reads and writes other files and devices.
func isForbiddenOption(name string) bool {
	switch name {
	case "bind", "rbind", "move", "remount", "loop", "offset", "sizelimit",
		"shared", "rshared", "slave", "rslave", "private", "rprivate", "unbindable", "runbindable",
		"logdev", "rtdev", "device", "journal_dev", "journal_path":
		return true
	}
	return strings.HasPrefix(name, "X-mount.") || strings.HasPrefix(name, "verity.")
}

func (o mountOptions) has(option string) bool { return slices.Contains(o, option) }

// with returns the options with one more, if it is not there.
func (o mountOptions) with(option string) mountOptions {
	if o.has(option) {
		return o
	}
	return append(slices.Clone(o), option)
}

// without returns the options less one.
func (o mountOptions) without(option string) mountOptions {
	return slices.DeleteFunc(slices.Clone(o), func(other string) bool { return other == option })
}

// forFilesystem returns the options to mount a file system of this type with.
// Copies of a volume on the same node carry the same UUID, and xfs refuses the
// second one unless told not to look; the other types have no such option.
func (o mountOptions) forFilesystem(fsType string) mountOptions {
	if fsType == "xfs" {
		return o.with("nouuid")
	}
	return o.without("nouuid")
}

// perMount returns the options that a bind mount can have.
func (o mountOptions) perMount() mountOptions {
	return slices.DeleteFunc(slices.Clone(o), func(option string) bool { return !isPerMount(option) })
}

// conflict tells which of the options a mount contradicts, "" if none: a mount
// that exists may be taken for the one that is asked for only if they agree.
// What the kernel does not show for being the default cannot be told.
func (o mountOptions) conflict(m Mount) string {
	if m.ReadOnly() != o.has("ro") {
		return "ro"
	}
	for _, known := range perMountOptions() {
		// relatime and strictatime are what the kernel chooses by itself.
		if known.name == "ro" || known.name == "relatime" || known.name == "strictatime" {
			continue
		}
		if o.has(known.name) != slices.Contains(m.Options, known.name) {
			return known.name
		}
	}
	for _, option := range o {
		if contradicts(option, m.SuperOptions) {
			return option
		}
	}
	return ""
}

// contradicts tells whether shown has the same option with another value, or its opposite.
func contradicts(option string, shown []string) bool {
	name, _, hasValue := strings.Cut(option, "=")
	for _, other := range shown {
		otherName, _, _ := strings.Cut(other, "=")
		if hasValue && otherName == name && other != option {
			return !slices.Contains(shown, option)
		}
		if other == "no"+name || "no"+otherName == name {
			return true
		}
	}
	return false
}
