package driver

import (
	"context"
	"net"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"k8s.io/klog/v2"
)

// ServeCentral answers on the listener, until ctx ends, what the driver of this name
// can do, and does nothing of it: all volumes are the nodes' business. It is for
// csi-resizer, which runs once in a cluster and has to know that expansion is done by
// the node alone (CSI specification, VOLUME_EXPANSION and the EXPAND_VOLUME
// capabilities); then it only passes the claim's size on to the PersistentVolume.
func ServeCentral(ctx context.Context, listener net.Listener, driverName, version string) error {
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, &centralIdentity{identityServer{Driver: &Driver{driverName: driverName, version: version}}})
	csi.RegisterControllerServer(server, &centralController{})
	csi.RegisterNodeServer(server, &centralNode{})
	stop := context.AfterFunc(ctx, server.GracefulStop)
	defer stop()
	klog.FromContext(ctx).Info("Answering what the driver can do", "endpoint", listener.Addr().String(), "driver", driverName)
	return server.Serve(listener)
}

type centralIdentity struct{ identityServer }

// Probe is ready at once: there is no LVM here.
func (*centralIdentity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

type centralController struct {
	csi.UnimplementedControllerServer
}

// ControllerGetCapabilities names none.
func (*centralController) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	return &csi.ControllerGetCapabilitiesResponse{}, nil
}

type centralNode struct{ csi.UnimplementedNodeServer }

// NodeGetCapabilities names what the nodes can do.
func (*centralNode) NodeGetCapabilities(ctx context.Context, request *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return (&nodeServer{}).NodeGetCapabilities(ctx, request)
}
