package driver

import "github.com/container-storage-interface/spec/lib/go/csi"

// nodeServer is the CSI Node service.
type nodeServer struct {
	csi.UnimplementedNodeServer
	*Driver
}

func newNodeServer(d *Driver) *nodeServer { return &nodeServer{Driver: d} }
