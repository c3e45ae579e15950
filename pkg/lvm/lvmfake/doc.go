// Package lvmfake is LVM in memory, for tests: the rules, the rounding and the
// errors of LVM 2.03.16, without root, device mapper or a process.
//
// A [Machine] is a computer with disks and volume groups; what it holds survives
// every client. An [LVM] is one process' view of it, as lvm.Client is of a real
// machine: it has its own snapshot of the state, its hooks, and it can crash while
// the machine goes on. So a test cuts a driver at any point by a hook that returns
// [ErrCrash], and starts the next one on the same machine.
//
// With a folder for devices, each active volume has a sparse file as its device
// node, and the extents of removed volumes keep their bytes until somebody
// overwrites them: a new volume on them shows what the last tenant left. [Devices]
// works on these files as blockdev.Device does on block devices.
//
// The contract suite in lvmtest holds this package and real LVM to the same behaviour.
package lvmfake
