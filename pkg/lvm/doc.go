// Package lvm drives LVM2: volume groups, logical volumes and thin pools as Go
// values, commands as methods, failures as typed errors.
//
// [Client] is what to use. State is read from one fullreport and kept as an
// immutable [State]; reading it starts no process and never waits for a command.
// A change is exactly one command; the state is patched at once and confirmed by
// a report a little later. Commands run one after the other in one long-lived
// lvm shell ([Session]), because process start, configuration and device scan
// dominate the cost of a single command; [Exec] starts a process for each. A
// command that was started is never killed: killing lvcreate half-way leaves
// metadata and kernel tables in an ambiguous state.
//
// Volumes are made inactive and with the activation skip flag, so that they are
// active only where and when [Client.Activate] was called.
//
// The package needs neither the host's /etc/lvm nor its devices file: it writes a
// private configuration and scans only the devices of the volume groups it was
// given, which it finds by name and UUID. Administrators may work on the same
// groups at the same time; LVM's own locks are shared with them, and what
// depends on the newest state is put as a condition that LVM checks under its
// lock. The package imports no other package of this module.
package lvm
