package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

// GetCapacity tells what new volumes may take: of the pool that the parameters
// name, else of all pools together. Where nothing can be made (another node, a
// pool that is not here or cannot be used) the answer is 0, not an error: the
// caller asks in order to avoid this place.
func (s *controllerServer) GetCapacity(ctx context.Context, req *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	class, a, err := parseCapacityRequest(req)
	if err != nil {
		return nil, err
	}
	if req.GetAccessibleTopology() != nil && !s.isHere(req.GetAccessibleTopology()) {
		return &csi.GetCapacityResponse{MaximumVolumeSize: wrapperspb.Int64(0)}, nil
	}
	inv, err := s.inventory(ctx)
	if err != nil {
		return nil, err
	}
	out := &csi.GetCapacityResponse{MaximumVolumeSize: wrapperspb.Int64(0)}
	for _, pool := range s.pools() {
		if class.Pool != "" && class.Pool != pool.Name || class.Validate(pool.Type, pool.Wipe) != nil {
			continue
		}
		if s.checkTools(filesystemFor(a, class, pool)) == nil {
			addCapacity(out, inv, pool, class, a)
		}
	}
	return out, nil
}

// parseCapacityRequest differs from what CreateVolume does in that everything
// may be left out.
func parseCapacityRequest(req *csi.GetCapacityRequest) (capacity.ClassParameters, access, error) {
	var class capacity.ClassParameters
	var a access
	var err error
	if len(req.GetParameters()) > 0 {
		if class, err = capacity.ParseClassParameters(req.GetParameters()); err != nil {
			return class, a, err
		}
	}
	if len(req.GetVolumeCapabilities()) > 0 {
		a, err = checkCapabilities(req.GetVolumeCapabilities())
	} else {
		a.block = true // no file system, so no minimum of one
	}
	return class, a, err
}

func addCapacity(out *csi.GetCapacityResponse, inv *inventory, pool poolconfig.Pool, class capacity.ClassParameters, a access) {
	usage, err := inv.usage(pool)
	if err != nil {
		return
	}
	shape := class.ShapeIn(pool.Type)
	least, err := capacity.MinimumVolumeSize(shape, filesystemFor(a, class, pool), usage.group.ExtentSizeBytes)
	if err != nil {
		return
	}
	most := usage.maximumVolumeSize(shape)
	if most < least {
		most = 0
	}
	out.AvailableCapacity += usage.available()
	out.MaximumVolumeSize.Value = max(out.MaximumVolumeSize.Value, most)
	if out.MinimumVolumeSize == nil || least < out.MinimumVolumeSize.Value {
		out.MinimumVolumeSize = wrapperspb.Int64(least)
	}
}
