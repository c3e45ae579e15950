package capacity

// MinimumBytes is the smallest device on which mkfs with its default options
// makes the file system, journal included, so that it can be mounted; 0 for
// block volumes. Measured with mke2fs 1.47.0, mkfs.xfs 6.1.0 and mkfs.btrfs 6.2:
// mkfs.xfs and mkfs.btrfs refuse anything smaller, mke2fs leaves out the journal.
func (f Filesystem) MinimumBytes() int64 {
	switch f {
	case FilesystemExt4:
		return 2 << 20
	case FilesystemXFS:
		return 300 << 20
	case FilesystemBtrfs:
		return 109 << 20
	default:
		return 0
	}
}
