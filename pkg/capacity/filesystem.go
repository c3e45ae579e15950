package capacity

// MinimumBytes is the smallest device on which the file system can be made and
// mounted, with some room in it for data; 0 for block volumes. The figures were
// measured with mkfs on sparse files, a test repeats that.
func (f Filesystem) MinimumBytes() int64 {
	switch f {
	case FilesystemExt4:
		return 4 << 20
	case FilesystemXFS:
		return 300 << 20
	case FilesystemBtrfs:
		return 128 << 20
	default:
		return 0
	}
}
