package sanity

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Capabilities are those that a driver advertises, spelled SERVICE/NAME with the names
// of the CSI specification: "controller/GET_CAPACITY", "node/EXPAND_VOLUME",
// "plugin/CONTROLLER_SERVICE".
type Capabilities map[string]bool

// Advertised asks the driver behind endpoint, such as unix:///csi/csi.sock, for all
// its capabilities.
func Advertised(ctx context.Context, endpoint string) (_ Capabilities, err error) {
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer conn.Close() // nothing is in flight any more
	caps := Capabilities{}

	plugin, err := csi.NewIdentityClient(conn).GetPluginCapabilities(ctx, &csi.GetPluginCapabilitiesRequest{})
	if err != nil {
		return nil, fmt.Errorf("GetPluginCapabilities: %w", err)
	}
	for _, c := range plugin.GetCapabilities() {
		if service := c.GetService(); service != nil {
			caps["plugin/"+service.GetType().String()] = true
		}
	}
	controller, err := csi.NewControllerClient(conn).ControllerGetCapabilities(ctx, &csi.ControllerGetCapabilitiesRequest{})
	if err != nil {
		return nil, fmt.Errorf("ControllerGetCapabilities: %w", err)
	}
	for _, c := range controller.GetCapabilities() {
		caps["controller/"+c.GetRpc().GetType().String()] = true
	}
	node, err := csi.NewNodeClient(conn).NodeGetCapabilities(ctx, &csi.NodeGetCapabilitiesRequest{})
	if err != nil {
		return nil, fmt.Errorf("NodeGetCapabilities: %w", err)
	}
	for _, c := range node.GetCapabilities() {
		caps["node/"+c.GetRpc().GetType().String()] = true
	}
	return caps, nil
}
