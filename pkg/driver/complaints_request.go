package driver

// Complaints about names and IDs in requests.
var (
	nameMissing = complaint{
		kind:   errInvalid,
		format: "name is empty; CreateVolume needs the name that the volume is to be known by",
		when:   "CreateVolume without a name",
	}
	nameTooLong = complaint{
		kind:   errInvalid,
		format: "name has %d bytes; the CSI specification allows %d",
		when:   "CreateVolume with a name that is too long",
	}
	nameNotText = complaint{
		kind:   errInvalid,
		format: "name %q has control characters or is no UTF-8; use printable text",
		when:   "CreateVolume with a name that the CSI specification bans",
	}
)

// Complaints about what a request asks for.
var (
	volumeIDMissing = complaint{
		kind:   errInvalid,
		format: "volume ID is empty; give the ID that CreateVolume answered",
		when:   "a call without a volume ID",
	}
	fieldTooLong = complaint{
		kind:   errInvalid,
		format: "%s has %d bytes; the CSI specification allows %d",
		when:   "a request with a string or map beyond the specification's limits",
	}
	capabilitiesMissing = complaint{
		kind:   errInvalid,
		format: "volume capabilities are missing; name an access mode and an access type (block or mount)",
		when:   "a call without volume capabilities",
	}
	capabilitiesMixed = complaint{
		kind:   errInvalid,
		format: "one volume cannot be both a block device and a file system; ask for two volumes",
		when:   "CreateVolume with capabilities of both access types",
	}
	filesystemsMixed = complaint{
		kind:   errInvalid,
		format: "one volume cannot have two file systems, %q and %q; ask for two volumes",
		when:   "CreateVolume with capabilities that name different file systems",
	}
	filesystemUnknown = complaint{
		kind:   errInvalid,
		format: "file system %q is not supported; set csi.storage.k8s.io/fstype to one of %s",
		when:   "a class or PersistentVolume asks for another file system than those that csi-local can make",
	}
	accessTypeMissing = complaint{
		kind:   errInvalid,
		format: "volume capability has no access type; set block or mount",
		when:   "a capability that is neither block nor mount",
	}
	accessModeMissing = complaint{
		kind:   errInvalid,
		format: "volume capability has no access mode; use SINGLE_NODE_WRITER (ReadWriteOnce) or another single-node mode",
		when:   "a capability without an access mode",
	}
	accessModeShared = complaint{
		kind:   errInvalid,
		format: "access mode %s needs a volume that several nodes can reach, and this one is on a disk of one node; use ReadWriteOnce or ReadWriteOncePod",
		when:   "a claim with ReadWriteMany or ReadOnlyMany",
	}
	contentSourceUnsupported = complaint{
		kind:   errInvalid,
		format: "volumes cannot be made from a snapshot or another volume; leave out dataSource and copy the data in a pod",
		when:   "a claim with a data source",
	}
	mutableParameters = complaint{
		kind:   errInvalid,
		format: "unknown mutable parameters: %s; there are none that can be changed, leave out volumeAttributesClassName",
		when:   "a claim with a VolumeAttributesClass",
	}
	tokenInvalid = complaint{
		kind:   errBadToken,
		format: "starting token %q is not one of this driver's; start again without one",
		when:   "ListVolumes with a token that ListVolumes did not give out",
	}
	maxEntriesNegative = complaint{
		kind:   errInvalid,
		format: "max entries is %d; use a positive number, or 0 for no limit",
		when:   "ListVolumes with a negative number of entries",
	}
)
