// Package vm runs a command where it has a kernel with device mapper and empty
// disks of its own, and leaves the host as it was.
//
// Two backends give the same promise to the command:
//
//   - uml boots a throwaway kernel (user-mode Linux). The command sees the host's
//     files through an overlay, so everything it writes is gone afterwards; only
//     the folders named in Options.Shares reach the host. The disks are /dev/ubdb,
//     /dev/ubdc and so on. It works without root and without device mapper on the
//     host, and its power can be cut.
//   - host runs the command on the host's own kernel, on loop devices, in a mount
//     namespace of its own. It needs root and device mapper, starts at once, and
//     takes everything down afterwards that was stacked on its loop devices.
//
// The command finds in its environment VM_BACKEND (uml or host), VM_DISKS (the
// block devices, separated by spaces, in the order of Options.Disks) and VM_UDEV
// (1 when a udevd runs, else 0). Without udevd DM_DISABLE_UDEV=1 is set, so LVM
// makes the device nodes itself.
//
// Start and Machine are for programs that boot machines; Main is for TestMain.
package vm
