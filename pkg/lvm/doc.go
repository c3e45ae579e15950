// Package lvm drives LVM2: volume groups, logical volumes and thin pools as Go
// values, commands as methods, failures as typed errors.
//
// State is read from one fullreport and kept as an immutable [State]; reading it
// starts no process. Mutating commands are serialised and run in one long-lived
// lvm shell ([Session]), because process start, configuration and device scan
// dominate the cost of a single command. A command that was started is never
// killed: killing lvcreate half-way leaves metadata and kernel tables in an
// ambiguous state (lvm(8) takes no such risk either, it blocks signals while it
// holds a volume group lock).
//
// The package needs neither the host's /etc/lvm nor its lvmetad or devices file:
// it writes a private configuration and scans only the devices of the volume
// groups it was given. It imports no other package of this module.
package lvm
