package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// controllerServer is the CSI Controller service. It runs on every node and
// knows that node's pools only. What is not here is not supported: the embedded
// type answers Unimplemented, and no capability promises it. Expansion is the
// node service's, because everything it needs is there.
type controllerServer struct {
	csi.UnimplementedControllerServer
	*Driver
}

// ControllerGetCapabilities names exactly what works.
func (s *controllerServer) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	out := &csi.ControllerGetCapabilitiesResponse{}
	for _, rpc := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_GET_VOLUME,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		out.Capabilities = append(out.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: rpc}},
		})
	}
	return out, nil
}

// ValidateVolumeCapabilities confirms what NodeStageVolume would accept for the volume.
func (s *controllerServer) ValidateVolumeCapabilities(ctx context.Context, req *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, volumeIDMissing.errorf()
	}
	if len(req.GetVolumeCapabilities()) == 0 {
		return nil, capabilitiesMissing.errorf()
	}
	v, err := s.lookup(ctx, req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if refusal := s.refusal(v, req); refusal != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: refusal.Error()}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext:      req.GetVolumeContext(),
		VolumeCapabilities: req.GetVolumeCapabilities(),
		Parameters:         req.GetParameters(),
	}}, nil
}

// refusal says why a volume cannot be used as a request asks, nil if it can.
func (s *controllerServer) refusal(v volume, req *csi.ValidateVolumeCapabilitiesRequest) error {
	a, err := checkCapabilities(req.GetVolumeCapabilities())
	if err != nil {
		return err
	}
	if len(req.GetMutableParameters()) > 0 {
		return mutableParameters.errorf(sortedKeys(req.GetMutableParameters()))
	}
	if err := checkAlive(v); err != nil {
		return err
	}
	switch {
	case v.State != stateUsed:
		return nil
	case a.block && v.FSType != "":
		return holdsFilesystem.errorf(v.ID(), v.FSType)
	case !a.block && v.FSType == "":
		return holdsBlockData.errorf(v.ID())
	case !a.block && a.fsType != "" && string(a.fsType) != v.FSType:
		return holdsOtherFilesystem.errorf(v.ID(), v.FSType, a.fsType)
	}
	return nil
}

// ControllerGetVolume describes one volume.
func (s *controllerServer) ControllerGetVolume(ctx context.Context, req *csi.ControllerGetVolumeRequest) (*csi.ControllerGetVolumeResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, volumeIDMissing.errorf()
	}
	v, err := s.lookup(ctx, req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	return &csi.ControllerGetVolumeResponse{
		Volume: s.describe(v),
		Status: &csi.ControllerGetVolumeResponse_VolumeStatus{},
	}, nil
}

// describe is a volume as listings show it. The volume context is not in it:
// parts of it are known to the PersistentVolume only.
func (d *Driver) describe(v volume) *csi.Volume {
	return &csi.Volume{VolumeId: v.ID(), CapacityBytes: v.SizeBytes, AccessibleTopology: []*csi.Topology{d.topology()}}
}
