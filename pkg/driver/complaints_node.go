package driver

// Complaints about what a file system is mounted and made with.
var (
	mountFlagForbidden = complaint{
		kind:   errInvalid,
		format: "mount option %q is not allowed: it would mount something else than this volume, or use other files or devices",
		when:   "a mount option such as bind, remount, loop or logdev",
	}
	mountFlagsContradict = complaint{
		kind:   errInvalid,
		format: "mount options have both ro and rw; give one of them",
		when:   "contradicting mount options",
	}
	mkfsOptionRefused = complaint{
		kind:   errInvalid,
		format: "mkfs option %q is not allowed for %s; allowed are %s",
		when:   "mkfsOptions with an option outside of the list",
	}
	mkfsOptionNoValue = complaint{
		kind:   errInvalid,
		format: "mkfs option %q needs a value",
		when:   "mkfsOptions that end with an option that takes a value",
	}
	mkfsValueRefused = complaint{
		kind:   errInvalid,
		format: "%q is not allowed in mkfs option %s of %s: it names a size, file, device or place outside of the volume",
		when:   "mkfsOptions with a sub-option such as ext4's -E offset",
	}
)

// Complaints about the requests of the node service.
var (
	readOnlyContradicts = complaint{
		kind:   errInvalid,
		format: "read-only is asked for and mount options have rw; drop one of them",
		when:   "readonly, or the access mode SINGLE_NODE_READER_ONLY, together with mount option rw",
	}
	mountGroupRefused = complaint{
		kind:   errInvalid,
		format: "volume_mount_group is not supported; kubelet applies fsGroup itself",
		when:   "a volume capability with a mount group",
	}
	pathMissing = complaint{
		kind:   errInvalid,
		format: "%s is empty",
		when:   "a node call without a path that it needs",
	}
	pathTooLong = complaint{
		kind:   errInvalid,
		format: "%s has %d bytes; Linux allows %d",
		when:   "a path longer than PATH_MAX",
	}
	pathNotClean = complaint{
		kind:   errInvalid,
		format: "%s %q must be absolute, without . and .. and doubled or final slashes",
		when:   "a path that is relative or not in its shortest form",
	}
	pathOutside = complaint{
		kind:   errInvalid,
		format: "%s %q is not below any of %s; see --kubelet-dir and --extra-paths",
		when:   "a staging or target path outside of kubelet's folders",
	}
	pathEscapes = complaint{
		kind:   errInvalid,
		format: "%s %q leads through a symbolic link to %s, outside of kubelet's folders",
		when:   "a staging or target path with a symbolic link out of kubelet's folders",
	}
	pathIsLink = complaint{
		kind:   errInvalid,
		format: "%s %q is a symbolic link; it must be the place itself",
		when:   "a staging or target path that is a symbolic link",
	}
	stagingPathMissing = complaint{
		kind:   errPrecondition,
		format: "staging_target_path is empty; the volume must be staged first",
		when:   "NodePublishVolume without a staging path",
	}
)

// Complaints about a volume that is not as the call needs it.
var (
	pathOccupied = complaint{
		kind:   errPrecondition,
		format: "%s already is a mount of %s, which is not volume %s; unmount it first",
		when:   "something else is mounted at a staging or target path",
	}
	stagedOtherwise = complaint{
		kind:   errConflict,
		format: "volume %s already is at %s, and differs in: %s",
		when:   "a repeated NodeStageVolume or NodePublishVolume with another capability, options or read-only flag",
	}
	filesystemFailed = complaint{
		kind:   errProtected,
		format: "the file system of volume %s at %s was made read-only by the kernel after errors; look into the node's kernel log, stop the pods that use it, and it is checked when it is staged next",
		when:   "a file system that met errors while mounted",
	}
	stillSigned = complaint{
		kind:   errProtected,
		format: "new volume %s shows a signature (%s) after its ends were cleared; it was not formatted",
		when:   "first NodeStageVolume of a volume whose device does not keep what is written",
	}
	formattedButBlank = complaint{
		kind:   errProtected,
		format: "volume %s was formatted with %s, but no file system is seen on %s; the device may be unreadable. Nothing was changed; look into the node's kernel log",
		when:   "a formatted volume looks blank",
	}
	formattedButOther = complaint{
		kind:   errProtected,
		format: "volume %s was formatted with %s, but %s shows %s. Nothing was changed",
		when:   "a formatted volume carries another signature than it should",
	}
	notStaged = complaint{
		kind:   errPrecondition,
		format: "volume %s is not staged at %s; call NodeStageVolume first",
		when:   "NodePublishVolume of a volume that is not mounted at its staging path, for example after a reboot",
	}
	publishedElsewhere = complaint{
		kind:   errPrecondition,
		format: "volume %s is published at %s, and its access mode allows one target; use ReadWriteOnce with a driver that knows SINGLE_NODE_MULTI_WRITER",
		when:   "a second target path for a volume with access mode SINGLE_NODE_SINGLE_WRITER (ReadWriteOncePod) or SINGLE_NODE_WRITER",
	}
	stagedReadOnly = complaint{
		kind:   errPrecondition,
		format: "volume %s is staged read-only at %s and cannot be published for writing",
		when:   "NodePublishVolume for writing after NodeStageVolume with option ro",
	}
	othersVolume = complaint{
		kind:   errProtected,
		format: "%s is a mount of %s, not of volume %s; it was left alone",
		when:   "NodeUnstageVolume or NodeUnpublishVolume with the path of another volume",
	}
)

// Complaints about expansion and statistics.
var (
	notAtPath = complaint{
		kind:   errProtected,
		format: "volume %s is not mounted at %s, which is where it should be expanded; nothing was changed",
		when:   "NodeExpandVolume with a path that exists and is not the volume's",
	}
	nothingAtPath = complaint{
		kind:   errNotFound,
		format: "volume %s is not at %s",
		when:   "NodeGetVolumeStats with a path at which the volume is not mounted",
	}
	largerThanLimit = complaint{
		kind:   errOutOfRange,
		format: "volume %s has %s, more than the limit of %s; volumes are never made smaller",
		when:   "NodeExpandVolume with limit_bytes below the volume's size",
	}
	expandOfOrigin = complaint{
		kind:   errPrecondition,
		format: "volume %s has a snapshot, %s, and LVM does not extend the origin of a snapshot; delete the snapshot",
		when:   "NodeExpandVolume of a thick volume with a snapshot",
	}
	expandTooLarge = complaint{
		kind:   errOutOfRange,
		format: "volume %s of %s cannot be expanded to %s: pool %s has %s left; at most %s would fit",
		when:   "NodeExpandVolume beyond what the pool has left",
	}
)

// Complaints about inline volumes.
var (
	inlineHandleInvalid = complaint{
		kind:   errInvalid,
		format: "%q is no handle of an inline volume: it has a slash, as only the IDs of CreateVolume have",
		when:   "NodePublishVolume of an inline volume with the ID of a persistent one",
	}
	inlineBlock = complaint{
		kind:   errInvalid,
		format: "inline volumes are file systems; for a block device use a generic ephemeral volume with volumeMode Block",
		when:   "NodePublishVolume of an inline volume with access type block",
	}
	inlineWithoutPod = complaint{
		kind:   errInvalid,
		format: "the pod of the inline volume is not known: %s is missing in the volume context; set podInfoOnMount in the CSIDriver",
		when:   "NodePublishVolume of an inline volume outside of a pod's folder and without the pod's UID",
	}
	inlineOfOtherPod = complaint{
		kind:   errConflict,
		format: "inline volume %s belongs to pod %s, not to pod %s",
		when:   "NodePublishVolume of an inline volume with a handle that another pod has",
	}
)
