package guest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// EnvSpec names the file with the Spec, in the environment of the kernel's command.
const EnvSpec = "CLUSTER_NODE"

// Folder is where the node sees the folder it shares with the host.
const Folder = "/node"

// Spec is what a node is to be.
type Spec struct {
	// Name is the Node's.
	Name string
	// Address is the node's, Gateway that of the host, PodSubnet the prefix of its pods.
	Address, Gateway, PodSubnet string
	// ClusterDNS is told to pods. Nobody needs to answer there.
	ClusterDNS string
	// Kubelet is the program, Kubeconfig what it is started with. Both are paths of the host.
	Kubelet, Kubeconfig string
	// KubeletConfig is merged into the kubelet's configuration, key by key at the top.
	KubeletConfig map[string]any
	// VolumeGroups are made at the first boot, of the disks that follow the first one: one
	// name for each disk, empty for one that stays blank.
	VolumeGroups []string
	// Import are archives of images. If there are any, the node imports them and ends.
	Import []string
}

// Write writes the spec to a file that Run can be given.
func (s Spec) Write(path string) error {
	content, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

func readSpec(path string) (s Spec, err error) {
	content, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(content, &s)
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return s, nil
}
