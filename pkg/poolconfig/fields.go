package poolconfig

// Names of the fields of a pool.
const (
	fieldName              = "name"
	fieldVolumeGroup       = "volumeGroup"
	fieldVolumeGroupUUID   = "volumeGroupUUID"
	fieldType              = "type"
	fieldThinPool          = "thinPool"
	fieldReserve           = "reserve"
	fieldOverprovision     = "overprovisionRatio"
	fieldDataWatermark     = "dataWatermarkPercent"
	fieldMetadataWatermark = "metadataWatermarkPercent"
	fieldFilesystem        = "defaultFilesystem"
	fieldWipe              = "wipe"
	fieldMaxInline         = "maxInlineSize"
	// fieldAbsent stands in a node's entry only.
	fieldAbsent = "absent"
)

// Names of the fields of the file and of a node.
const (
	fieldPools = "pools"
	fieldNodes = "nodes"
)

// PoolFields are the names of all fields of a pool, in the order in which the
// documentation has them.
func PoolFields() []string {
	return []string{fieldName, fieldVolumeGroup, fieldVolumeGroupUUID, fieldType, fieldThinPool, fieldReserve,
		fieldOverprovision, fieldDataWatermark, fieldMetadataWatermark, fieldFilesystem, fieldWipe, fieldMaxInline}
}

// NodePoolFields are the names of all fields of a pool in a node's entry.
func NodePoolFields() []string { return append(PoolFields(), fieldAbsent) }

// thinOnlyFields have no meaning in a thick pool.
func thinOnlyFields() []string {
	return []string{fieldThinPool, fieldOverprovision, fieldDataWatermark, fieldMetadataWatermark}
}
