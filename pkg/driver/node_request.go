package driver

import "github.com/container-storage-interface/spec/lib/go/csi"

// volumeUse is how a request wants to use a volume.
type volumeUse struct {
	// id is the CSI volume ID, key the one under which its operations exclude each other.
	id, key string
	block   bool
	// fsType is what the request names; empty leaves it to the volume and its pool.
	fsType string
	// options are those of the request, with "ro" if it asks for read-only in any way.
	options mountOptions
	// manyTargets allows more than one target path at a time.
	manyTargets bool
	// context is the volume context: what CreateVolume answered, or the
	// attributes of an inline volume.
	context map[string]string
}

func (u volumeUse) readOnly() bool { return u.options.has("ro") }

// parseUse reads what the requests of staging and publishing have in common.
func parseUse(id string, capability *csi.VolumeCapability, context map[string]string, readOnly bool) (volumeUse, error) {
	if id == "" {
		return volumeUse{}, volumeIDMissing.errorf()
	}
	access, err := checkCapability(capability)
	if err != nil {
		return volumeUse{}, err
	}
	use := volumeUse{id: id, key: operationKeyOf(id), context: context, block: access.block, fsType: string(access.fsType), options: access.options}
	if capability.GetMount().GetVolumeMountGroup() != "" {
		return volumeUse{}, mountGroupRefused.errorf()
	}
	mode := capability.GetAccessMode().GetMode()
	use.manyTargets = mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	if readOnly || mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY {
		if use.options.has("rw") {
			return volumeUse{}, readOnlyContradicts.errorf()
		}
		use.options = use.options.with("ro")
	}
	return use, nil
}

// operationKeyOf returns the key for operations on the volume with this ID. An
// ID that cannot be one of ours is a key by itself: teardown must work for it too.
func operationKeyOf(id string) string {
	if isInlineHandle(id) {
		if name, err := volumeNameFor(id); err == nil {
			return name
		}
		return id
	}
	ref, err := parseVolumeID(id)
	if err != nil {
		return id
	}
	return lockKey(ref)
}
