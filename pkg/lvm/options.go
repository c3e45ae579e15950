package lvm

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// VolumeGroupSelector names one volume group that the client may work on.
type VolumeGroupSelector struct {
	Name string
	// UUID pins the volume group, as vgs -o vg_uuid prints it. Empty: the
	// client learns the UUID when it first sees exactly one group of that name
	// and keeps to it for as long as the process lives.
	UUID string
}

// Options configure a [Client]. Only RunDir is required.
type Options struct {
	// VolumeGroups are all that the client sees; other volume groups, and disks
	// that belong to none of these, are not scanned.
	VolumeGroups []VolumeGroupSelector
	// RunDir is a folder for the private LVM configuration; made if missing,
	// on a file system that may be lost at reboot. One client per folder.
	RunDir string
	// LVMPath is the lvm executable; "lvm" (searched in PATH) if empty.
	LVMPath string
	// LockDir is LVM's lock folder, shared with everybody who runs LVM on this
	// machine; "/run/lock/lvm" if empty.
	LockDir string
	// DevDir is where device nodes are; "/dev" if empty.
	DevDir string
	// SysDir is where sysfs is mounted; "/sys" if empty.
	SysDir string
	// BackupDir receives a copy of each volume group's metadata after changes
	// (vgcfgrestore(8) reads it); no backups if empty.
	BackupDir string
	// WaitForUdev leaves the making of device nodes to udevd, if it runs, and
	// waits for it. Only for where something else depends on that, and udevd is
	// known to answer. Usually LVM makes the nodes itself, beside a running udevd
	// too: it waits by means of a System V semaphore that udevd's rules release,
	// and that never happens if udevd ends meanwhile or runs in another IPC
	// namespace, as the host's does for most containers; and a worker of udevd
	// that is slow stalls the command for half a minute.
	WaitForUdev bool
	// PlainExec starts one process for each command instead of one shell for all.
	PlainExec bool
	// SessionCommands is the number of commands after which the lvm shell is
	// replaced by a new one; 2000 if 0.
	SessionCommands int
	// MaxOutputBytes bounds the answer to one command; 64 MiB if 0.
	MaxOutputBytes int64
	// RefreshDelay is the time between a change and the report that confirms
	// it; changes meanwhile share the report. 750 ms if 0.
	RefreshDelay time.Duration
	// RefreshInterval is the time between reports when nothing happens; 1 min if 0.
	RefreshInterval time.Duration
	// DeviceTimeout bounds the wait for a device node after activation; 5 s if 0.
	DeviceTimeout time.Duration
	// Observe, if set, is called after each LVM command that was started, from
	// the goroutine that ran it. It must not block.
	Observe func(CommandStats)
}

// CommandStats is what one LVM command cost.
type CommandStats struct {
	// Command is the LVM command, for example "lvcreate".
	Command string
	// Wait is the time spent waiting for a turn, Run the time the command took.
	Wait, Run time.Duration
	// ExitCode is LVM's status, -1 if it is not known (the shell died).
	ExitCode int
	// Process tells that an operating system process was started for it.
	Process bool
}

// withDefaults fills in what was left empty and checks the rest.
func (o Options) withDefaults() (Options, error) {
	if !filepath.IsAbs(o.RunDir) {
		return o, fmt.Errorf("%w: RunDir %q is no absolute path", ErrInvalid, o.RunDir)
	}
	o.LVMPath = cmp.Or(o.LVMPath, "lvm")
	o.LockDir = cmp.Or(o.LockDir, "/run/lock/lvm")
	o.DevDir = cmp.Or(o.DevDir, "/dev")
	o.SysDir = cmp.Or(o.SysDir, "/sys")
	o.SessionCommands = cmp.Or(o.SessionCommands, 2000)
	o.MaxOutputBytes = cmp.Or(o.MaxOutputBytes, 64<<20)
	o.RefreshDelay = cmp.Or(o.RefreshDelay, 750*time.Millisecond)
	o.RefreshInterval = cmp.Or(o.RefreshInterval, time.Minute)
	o.DeviceTimeout = cmp.Or(o.DeviceTimeout, 5*time.Second)
	if o.Observe == nil {
		o.Observe = func(CommandStats) {}
	}
	for _, dir := range []string{o.RunDir, o.LockDir, o.DevDir, o.SysDir} {
		if strings.ContainsAny(dir, "\"\\\n") {
			return o, fmt.Errorf("%w: the folder %q cannot be written into lvm.conf", ErrInvalid, dir)
		}
	}
	return o, validSelectors(o.VolumeGroups)
}

func validSelectors(groups []VolumeGroupSelector) error {
	seen := map[string]bool{}
	for _, g := range groups {
		if err := validName("volume group", g.Name); err != nil {
			return err
		}
		if seen[g.Name] {
			return fmt.Errorf("%w: the volume group %s is given twice", ErrInvalid, g.Name)
		}
		seen[g.Name] = true
	}
	return nil
}
