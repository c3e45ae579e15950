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
)
