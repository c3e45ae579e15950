// Package capacity holds what the driver, the capacity reporter and the
// scheduler plugin must agree on: the wire contract (driver name, annotation
// keys and their JSON, topology key), the class parameters, and the arithmetic
// that turns a request into the bytes of a pool.
//
// Everything here is a pure function over plain values: no I/O, no clock, no
// logging, no state. It is therefore safe for concurrent use, and the driver
// and the scheduler get the same answer for the same input. The package imports
// no other package of this module.
//
// # Terms
//
// One meaning each, in code, documentation, metrics and messages. Amounts are
// bytes (int64) unless the name says extents.
//
//	size         physical bytes of a pool
//	allocatable  what our volumes may occupy in total; this is published
//	allocated    what our volumes occupy now
//	available    allocatable − allocated, never below 0
//	used         thin pools: data really written
//	reserve      kept back by the administrator
//	reserved     the scheduler's in-flight bytes
//	footprint    pool bytes of one volume, RAID legs, their metadata and
//	             rounding to extents included
//	pool         the unit that is reserved and published: a volume group
//	             (thick) or a thin pool in one (thin), under a name
//
// Volume group, logical volume, thin pool, physical volume and extent are meant
// as LVM means them (lvm(8)); stage and publish as the CSI specification does.
//
// # Why allocatable and not free
//
// Free space changes with each volume that is made or deleted, so a published
// figure of it is wrong most of the time. Allocatable counts the extents of our
// own volumes too: creating or deleting one moves extents between two terms of
// a sum and leaves the sum alone. See [ThickUsage] and [ThinUsage].
package capacity
