package driver

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// Options configure a [Driver]. All fields without a stated default are required.
type Options struct {
	// DriverName is the CSI driver's name: the provisioner of its classes, the
	// owner in its volumes' tags, the prefix of its topology key. A DNS name of
	// at most 63 bytes.
	DriverName string
	// NodeName is the Kubernetes node that this process serves.
	NodeName string
	// Version is what GetPluginInfo answers.
	Version string
	// Volumes, Devices and Mounter do the work.
	Volumes Volumes
	Devices Devices
	Mounter Mounter
	// KubeletDir is kubelet's root, usually /var/lib/kubelet: staging and
	// publish paths must lie below it.
	KubeletDir string
	// MaxVolumes is the number of volumes that the node can use in total, at
	// least 1 (0 would mean unlimited to Kubernetes).
	MaxVolumes int64
}

// Driver answers the CSI calls of one node. Its methods may be called at any
// time from any goroutine. It keeps nothing between calls but locks and a copy
// of what LVM said.
type Driver struct {
	driverName, nodeName, version string

	volumes Volumes
	devices Devices
	mounter Mounter

	kubeletDir string
	maxVolumes int64

	operations    *operations
	lastInventory atomic.Pointer[inventory]
}

// New makes a driver; it starts nothing.
func New(opts Options) (*Driver, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	return &Driver{
		driverName: opts.DriverName,
		nodeName:   opts.NodeName,
		version:    opts.Version,
		volumes:    opts.Volumes,
		devices:    opts.Devices,
		mounter:    opts.Mounter,
		kubeletDir: opts.KubeletDir,
		maxVolumes: opts.MaxVolumes,
		operations: newOperations(),
	}, nil
}

func (o Options) validate() error {
	var problems []error
	require := func(ok bool, what string) {
		if !ok {
			problems = append(problems, errors.New("driver options: "+what))
		}
	}
	require(o.DriverName != "", "DriverName is empty")
	require(o.NodeName != "", "NodeName is empty")
	require(o.Version != "", "Version is empty")
	require(o.Volumes != nil, "Volumes is nil")
	require(o.Devices != nil, "Devices is nil")
	require(o.Mounter != nil, "Mounter is nil")
	require(o.KubeletDir != "", "KubeletDir is empty")
	require(o.MaxVolumes >= 1, "MaxVolumes is below 1")
	return errors.Join(problems...)
}

// Stop refuses new calls and waits for the running effects, until ctx ends.
func (d *Driver) Stop(ctx context.Context) error { return d.operations.stop(ctx) }

// topologyKey is the only key of this driver's topology segments; the value is the node's name.
func (d *Driver) topologyKey() string { return d.driverName + "/node" }

// topology is where every volume of this process is accessible.
func (d *Driver) topology() *csi.Topology {
	return &csi.Topology{Segments: map[string]string{d.topologyKey(): d.nodeName}}
}
