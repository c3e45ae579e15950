package driver

// Complaints about volumes that a request names.
var (
	volumeGroupNotOurs = complaint{
		kind:   errPrecondition,
		format: "volume %s: no pool of this node uses volume group %q; put its pool back into the pools file",
		when:   "a call for a volume whose volume group is not (or no longer) in the pools file",
	}
	volumeIsDeleting = complaint{
		kind:   errPrecondition,
		format: "volume %s is being deleted; create a new one under another name",
		when:   "a call for a volume whose deletion was accepted",
	}
	volumeInUse = complaint{
		kind:   errPrecondition,
		format: "volume %s is in use: %d openers of its device %s; unmount it, or end the processes that have it open (fuser -vm)",
		when:   "DeleteVolume while the device is mounted or open on the node",
	}
	deletionOfOrigin = complaint{
		kind:   errPrecondition,
		format: "volume %s has a snapshot, %s, which would be lost with it; delete the snapshot first",
		when:   "DeleteVolume of a thick volume with a snapshot",
	}
	nameIsDeleting = complaint{
		kind:   errBusy,
		format: "a volume named %q is being deleted; try again when it is gone",
		when:   "CreateVolume with the name of a volume whose deletion was accepted",
	}
	existsInOtherPool = complaint{
		kind:   errConflict,
		format: "a volume named %q exists as %s in pool %q, and pool %q was asked for; use another name",
		when:   "CreateVolume again with the same name and another pool",
	}
	existsOtherwise = complaint{
		kind:   errConflict,
		format: "a volume named %q exists as %s with other parameters (layout, access type, file system or mkfs options); use another name",
		when:   "CreateVolume again with the same name and other class parameters or capabilities",
	}
	existsInOtherSize = complaint{
		kind:   errConflict,
		format: "a volume named %q exists as %s with %s, and at least %s and at most %s (0: no limit) were asked for; use another name",
		when:   "CreateVolume again with the same name and another size",
	}
	nameTakenByOther = complaint{
		kind:   errPrecondition,
		format: "logical volume %s exists and is not this driver's, so no volume named %q can be made; rename it with lvrename(8), or remove it",
		when:   "somebody else made a logical volume under the name that CreateVolume needs",
	}
	holdsFilesystem = complaint{
		kind:   errPrecondition,
		format: "volume %s holds a file system, %s; use it with volumeMode Filesystem",
		when:   "a volume that was formatted is asked for as a block device",
	}
	holdsBlockData = complaint{
		kind:   errPrecondition,
		format: "volume %s was used as a block device and is never formatted; use it with volumeMode Block",
		when:   "a volume that was used as a block device is asked for as a file system",
	}
	holdsOtherFilesystem = complaint{
		kind:   errPrecondition,
		format: "volume %s holds %s, and %s was asked for; set fsType to what it holds",
		when:   "a formatted volume is asked for with another file system",
	}
	lvmSilent = complaint{
		kind:   errNotReady,
		format: "LVM does not answer: %v; see the driver's log, and dmsetup info for suspended devices",
		when:   "Probe while LVM commands hang or fail",
	}
)
