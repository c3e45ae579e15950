// Package udev runs the contract suite on lvm.Client beside a running udevd with the
// host's rules, as on a real node: udevd makes the device nodes and opens every device
// for a moment.
package udev
