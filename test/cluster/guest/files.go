package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
)

const (
	containerdConfig = "/run/node/containerd.toml"
	containerdSocket = "/run/containerd/containerd.sock"
	kubeletConfig    = "/run/node/kubelet.yaml"
	networkConfig    = "/run/node/cni/10-bridge.conflist"
)

// containerdText leaves out what only logs that it cannot work here.
const containerdText = `version = 2
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.k8s.io/pause:3.10"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "` + "/run/node/cni" + `"
`

func (s Spec) writeFiles(context.Context) error {
	kubelet, err := json.Marshal(s.kubelet())
	if err != nil {
		return err
	}
	network, err := json.Marshal(s.network())
	if err != nil {
		return err
	}
	for path, content := range map[string][]byte{
		containerdConfig: []byte(containerdText), kubeletConfig: kubelet, networkConfig: network,
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// network is a bridge of its own for each node. The host routes between them, so nothing is
// hidden behind a node's address.
func (s Spec) network() map[string]any {
	return map[string]any{
		"cniVersion": "0.4.0", "name": "node",
		"plugins": []any{map[string]any{
			"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
			"ipam": map[string]any{
				"type":   "host-local",
				"ranges": []any{[]any{map[string]any{"subnet": s.PodSubnet}}},
				"routes": []any{map[string]any{"dst": "0.0.0.0/0"}},
				// Sandboxes do not outlive the kernel, nor do their addresses.
				"dataDir": "/run/node/addresses",
			},
		}},
	}
}

func (s Spec) kubelet() map[string]any {
	config := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"cgroupDriver":             "cgroupfs",
		"failSwapOn":               false,
		"enforceNodeAllocatable":   []string{},
		// The root of this kernel is an overlay in memory, which is not measured.
		"localStorageCapacityIsolation": false,
		"makeIPTablesUtilChains":        false,
		"clusterDNS":                    []string{s.ClusterDNS},
		"clusterDomain":                 "cluster.local",
		// Whoever reaches a node is in the cluster's own network.
		"authentication": map[string]any{"anonymous": map[string]any{"enabled": true}, "webhook": map[string]any{"enabled": false}},
		"authorization":  map[string]any{"mode": "AlwaysAllow"},
		// Images came with the disk and cannot be fetched again.
		"imageGCHighThresholdPercent": 100,
		"evictionHard":                map[string]string{"nodefs.available": "0%", "imagefs.available": "0%", "memory.available": "32Mi"},
	}
	maps.Copy(config, s.KubeletConfig)
	return config
}

func (s Spec) kubeletFlags() []string {
	return []string{
		"--config=" + kubeletConfig, "--kubeconfig=" + s.Kubeconfig, "--hostname-override=" + s.Name,
		"--node-ip=" + s.Address, "--v=2", fmt.Sprintf("--root-dir=%s", "/var/lib/kubelet"),
	}
}
