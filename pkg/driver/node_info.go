package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// NodeGetCapabilities names what this node service can do.
func (s *nodeServer) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	response := &csi.NodeGetCapabilitiesResponse{}
	for _, capability := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
		csi.NodeServiceCapability_RPC_GET_VOLUME_HEALTH,
		csi.NodeServiceCapability_RPC_GET_STORAGE_HEALTH,
	} {
		response.Capabilities = append(response.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: capability}},
		})
	}
	return response, nil
}

// NodeGetInfo names the node, where its volumes are accessible, and how many it takes.
func (s *nodeServer) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	count, err := s.MaxVolumesPerNode()
	if err != nil {
		return nil, err
	}
	return &csi.NodeGetInfoResponse{
		NodeId:             s.nodeName,
		MaxVolumesPerNode:  count,
		AccessibleTopology: s.topology(),
	}, nil
}

// MaxVolumesPerNode is how many volumes of this driver the node can use in
// total: the configured number, or what LVM can hold if that is less. Whoever
// publishes the number must take it from here, so that NodeGetInfo and CSINode agree.
//
// It does not fall below what is in use when a limit was lowered, and it is
// at least 1, because to Kubernetes 0 means "no limit".
func (d *Driver) MaxVolumesPerNode() (int64, error) {
	inUse, err := d.volumesInUse()
	if err != nil {
		return 0, err
	}
	return max(inUse, min(d.maxVolumes, d.slots()), 1), nil
}

// volumesInUse counts the volumes of this driver that are mounted or bound on
// the node, by what is known without asking LVM.
func (d *Driver) volumesInUse() (int64, error) {
	inv := d.lastInventory.Load()
	if inv == nil {
		return 0, nil
	}
	table, err := d.mountTable()
	if err != nil {
		return 0, err
	}
	used := map[DeviceNumber]bool{}
	for _, m := range table {
		used[m.Device] = true
	}
	var count int64
	for _, v := range inv.volumes {
		if number := numberOf(v); number != noDevice() && used[number] {
			count++
		}
	}
	return count, nil
}
