package lvm

import (
	"fmt"
	"strings"
)

// configFile says what goes into a private lvm.conf (lvm.conf(5)).
type configFile struct {
	devDir  string
	lockDir string
	// devices are the only ones that pass the filter; nil lets everything pass
	// (discovery).
	devices []string
	// discovery looks at disks of unknown content, so the checks for parts of
	// RAIDs and multipath devices are on.
	discovery bool
	udev      bool
	// session: the file is read by the lvm shell, which ends each log with the
	// command's status.
	session bool
}

// render returns the text of lvm.conf. What is not set is LVM's default.
//
//allow:func it is the text of one file, which is read best in one piece
func (c configFile) render() (string, error) {
	filter, err := c.filter()
	if err != nil {
		return "", err
	}
	yes := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# Written by csi-local. Changes are lost.
config {
	checks = 0
}
devices {
	dir = %[1]q
	scan = [ %[1]q ]
	filter = [ %[2]s ]
	# Logical volumes hold other people's data: what looks like a physical
	# volume inside one is theirs.
	scan_lvs = 0
	use_devicesfile = 0
	hints = "none"
	obtain_device_list_from_udev = 0
	external_device_info_source = "none"
	md_component_detection = %[3]d
	multipath_component_detection = %[3]d
	# A disk of ours that is suspended for a moment (multipath, encryption) is
	# waited for; ignored, it would be reported as missing. Of all disks of the
	# machine, one that nobody resumes must not keep us from seeing the others.
	ignore_suspended_devices = %[3]d
	ignore_lvm_mirrors = 1
	issue_discards = 0
	write_cache_state = 0
}
allocation {
	wipe_signatures_when_zeroing_new_lvs = 0
	use_blkid_wiping = 0
}
log {
	# The shell's answers: one JSON document for each command.
	report_command_log = 1
	command_log_selection = "%[6]s"
	command_log_cols = "log_type,log_object_type,log_object_name,log_message,log_ret_code"
	silent = 0
	verbose = 0
	syslog = 0
}
report {
	output_format = "json"
	list_item_separator = ","
}
shell {
	history_size = 0
}
backup {
	# Written by us, afterwards.
	backup = 0
	archive = 0
}
global {
	units = "b"
	suffix = 0
	locking_dir = %[4]q
	wait_for_locks = 1
	use_lvmlockd = 0
	use_lvmpolld = 0
	notify_dbus = 0
	system_id_source = "none"
}
activation {
	udev_sync = %[5]d
	udev_rules = %[5]d
	monitoring = 0
	retry_deactivation = 1
	# KiB that lvm touches and locks each time before it suspends a device, so
	# that it needs no memory while it holds I/O back. The default of 8 MiB is
	# most of the cost of a thin volume; lvm says so if this is too little.
	reserved_memory = 1024
	reserved_stack = 64
	activation_mode = "degraded"
}
`, c.devDir, filter, yes(c.discovery), c.lockDir, yes(c.udev), c.logSelection())
	return b.String(), nil
}

// logSelection leaves out the status of every object that a report looked at,
// two rows for each volume. LVM writes JSON that is none, a comma after the last
// element, if the selection leaves out the last row; in the shell that one is
// the command's status, elsewhere it may be any.
func (c configFile) logSelection() string {
	if c.session {
		return "log_type!=status || log_object_type=cmd"
	}
	return "all"
}

func (c configFile) filter() (string, error) {
	if c.discovery {
		return `"a|.*|"`, nil
	}
	var b strings.Builder
	for _, device := range c.devices {
		pattern, err := filterPattern(device)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%q, ", "a|^"+pattern+"$|")
	}
	b.WriteString(`"r|.*|"`)
	return b.String(), nil
}

// filterPattern makes a path a regular expression that matches just it.
func filterPattern(path string) (string, error) {
	var b strings.Builder
	for _, r := range path {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("/_-:=@,%~", r):
			b.WriteRune(r)
		case strings.ContainsRune(".+*?(){}#", r):
			b.WriteString("[" + string(r) + "]")
		default:
			return "", fmt.Errorf("%w: the device name %q cannot be written into an LVM filter", ErrInvalid, path)
		}
	}
	return b.String(), nil
}
