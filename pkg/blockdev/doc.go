// Package blockdev reads, clears and inspects block devices by system calls alone:
// it starts no process and changes no LVM metadata.
//
// What it promises rests on these guarantees of the kernel (block/fops.c,
// block/blk-lib.c, drivers/md/dm-ioctl.c; Linux 5.4 and newer):
//
//   - fallocate(2) on a block device invalidates the page cache of the range before
//     and after it, so no reader gets old bytes from memory.
//   - FALLOC_FL_ZERO_RANGE makes the range read as zeros whatever the device can do:
//     the kernel uses the device's "write zeroes" command without giving up the
//     blocks, and writes pages of zeros where there is none.
//   - FALLOC_FL_PUNCH_HOLE with FALLOC_FL_KEEP_SIZE uses the same command and lets
//     the device give the blocks up, but only as far as it promises zeros
//     afterwards; otherwise the call fails with EOPNOTSUPP and a slower way is taken.
//     A plain discard (BLKDISCARD) promises nothing about later reads and is not used.
//   - fsync(2) on a block device writes dirty pages back, reports their write errors
//     and makes the device empty its volatile cache.
//   - open(2) of a block device with O_EXCL fails with EBUSY while the device is
//     mounted, is swap, or is part of another device (device mapper, MD). So nothing
//     here can write below a mounted file system. A plain open by another process does
//     not stop it; [Device.OpenCount] shows those.
//   - open(2) with O_DIRECT reads what the device returns, never the page cache.
//   - The ioctl DM_DEV_STATUS counts the openers of a device-mapper device, mounts
//     and devices stacked on it included, without opening it.
//
// System calls on a device cannot be interrupted. On a suspended device they wait
// until it is resumed; see [Device.Status].
package blockdev
