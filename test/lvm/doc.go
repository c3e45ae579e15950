// Package lvm tests pkg/lvm and pkg/blockdev on real LVM and real device mapper, in a
// kernel of their own.
package lvm
