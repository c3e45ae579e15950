package lvm

import "os"

// udevWanted decides once, at the start, whether LVM leaves device nodes to udevd.
func udevWanted(opts Options) bool {
	switch opts.Udev {
	case UdevOn:
		return true
	case UdevOff:
		return false
	}
	_, err := os.Stat(opts.UdevControl)
	return err == nil
}
