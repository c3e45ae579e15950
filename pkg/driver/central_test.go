package driver_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/csi-local/csi-local/pkg/driver"
)

// csi-resizer leaves expansion to the node if the plugin has a controller service that
// cannot expand volumes, and a node service that can.
func TestServeCentral_SaysThatTheNodeExpands(t *testing.T) {
	endpoint := "unix://" + filepath.Join(t.TempDir(), "csi.sock")
	ctx, cancel := context.WithCancel(t.Context())
	listener, err := driver.Listen(ctx, endpoint)
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- driver.ServeCentral(ctx, listener, "d.example", "v1") }()
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)

	info, err := csi.NewIdentityClient(conn).GetPluginInfo(t.Context(), &csi.GetPluginInfoRequest{})
	must(t, err)
	if info.GetName() != "d.example" || info.GetVendorVersion() != "v1" {
		t.Errorf("got %v", info)
	}
	probe, err := csi.NewIdentityClient(conn).Probe(t.Context(), &csi.ProbeRequest{})
	must(t, err)
	if !probe.GetReady().GetValue() {
		t.Error("not ready")
	}
	controller, err := csi.NewControllerClient(conn).ControllerGetCapabilities(t.Context(), &csi.ControllerGetCapabilitiesRequest{})
	must(t, err)
	if len(controller.GetCapabilities()) > 0 {
		t.Errorf("controller: %v", controller)
	}
	node, err := csi.NewNodeClient(conn).NodeGetCapabilities(t.Context(), &csi.NodeGetCapabilitiesRequest{})
	must(t, err)
	if !slices.ContainsFunc(node.GetCapabilities(), func(c *csi.NodeServiceCapability) bool {
		return c.GetRpc().GetType() == csi.NodeServiceCapability_RPC_EXPAND_VOLUME
	}) {
		t.Errorf("node: %v", node)
	}
	if _, err := csi.NewControllerClient(conn).CreateVolume(t.Context(), &csi.CreateVolumeRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("CreateVolume: %v", err)
	}
	must(t, conn.Close())
	cancel()
	must(t, <-served)
}
