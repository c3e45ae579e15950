// Package beside tests lvm.Client on a machine where it is not alone: an administrator
// works on the same volume groups, disks come and go, guests have LVM inside our
// volumes, and LVM hangs.
package beside
