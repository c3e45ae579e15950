package driver

// Complaints about pools and the places where volumes can be.
var (
	poolUnknown = complaint{
		kind:   errElsewhere,
		format: "pool %q is not configured on node %q; %s",
		when:   "a class names a pool that this node's pools file does not have; another node may have it, so the claim moves on",
	}
	toolsMissing = complaint{
		kind:   errElsewhere,
		format: "file system %s cannot be used on node %q: %s not found in PATH; use an image that has it, or another file system",
		when:   "the image of csi-local (or the node, where it runs without one) lacks a program that the file system needs",
	}
	poolFull = complaint{
		kind:   errExhausted,
		format: "pool %q on node %q has %s available, the volume takes %s; delete volumes, add disks, or ask for less",
		when:   "the pool's reserve, overprovision ratio, watermarks or free extents do not allow the volume",
	}
	volumeGroupNameTooLong = complaint{
		kind:   errPoolUnusable,
		format: "pool %q: the name of volume group %q is too long; at most %d bytes, hyphens counted twice, leave room for the volumes' names: vgrename(8)",
		when:   "a pool's volume group has a name that leaves no room in the kernel's device names",
	}
	thinPoolMissing = complaint{
		kind:   errPoolUnusable,
		format: "pool %q: volume group %s has no thin pool %q; make it with lvcreate(8) --type thin-pool, or correct thinPool in the pools file",
		when:   "a thin pool that the pools file names does not exist",
	}
	thinPoolIsNot = complaint{
		kind:   errPoolUnusable,
		format: "pool %q: %s is no thin pool but of type %q; correct thinPool in the pools file, or remove what has its name",
		when:   "the pools file names a logical volume of another type as a thin pool",
	}
	thinPoolKeepsBytes = complaint{
		kind:   errPoolUnusable,
		format: "pool %q: thin pool %s does not zero new blocks, and wipe policy %s promises zeros; run lvchange --zero y %s, or set wipe: unsafe-none",
		when:   "a thin pool was made with zeroing off, so a new volume could show what a deleted one held",
	}
	topologyEmpty = complaint{
		kind:   errInvalid,
		format: "accessibility requirements have neither requisite nor preferred topologies; leave them out or fill in one",
		when:   "CreateVolume with empty accessibility requirements",
	}
	topologyElsewhere = complaint{
		kind:   errElsewhere,
		format: "none of the requisite topologies is this node, %q; volumes made here are accessible from %s=%s only",
		when:   "CreateVolume for another node than the one that was asked",
	}
)
