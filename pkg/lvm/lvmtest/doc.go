// Package lvmtest holds lvm.Client on real LVM and lvmfake to the same behaviour: one
// suite, [Run], for both. It pins layouts, rounding, names, tags and, for each
// sentinel error of package lvm, what brings it about.
//
// [Real] makes volume groups on given disks, with an LVM configuration of its own,
// and plays the administrator who works beside the client.
package lvmtest
