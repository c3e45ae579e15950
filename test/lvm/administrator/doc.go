// Package administrator lets an administrator run hundreds of LVM commands by hand on the
// volume group on which lvm.Client works at the same time.
package administrator
