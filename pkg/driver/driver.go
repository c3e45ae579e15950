package driver

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/csi-local/csi-local/pkg/poolconfig"
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
	// Pools returns the pools of this node. It is called for each request, so a
	// changed pools file counts from the next one on; it must not block.
	Pools func() []poolconfig.Pool
	// Metrics counts what the driver does; a private one if nil.
	Metrics *Metrics
	// KubeletDir is kubelet's root, usually /var/lib/kubelet: staging and
	// publish paths must lie below it.
	KubeletDir string
	// ExtraPaths are more folders below which they may lie; for tests and tools.
	ExtraPaths []string
	// MaxVolumes is the number of volumes that the node can use in total, at
	// least 1 (0 would mean unlimited to Kubernetes).
	MaxVolumes int64
	// MaxConcurrentWipes is how many volumes of one volume group are wiped at
	// once; 2 if 0. Others wait for their turn.
	MaxConcurrentWipes int
	// UnstageWait is how long DeleteVolume waits at most for a volume to be taken
	// down before it refuses one that is in use; 0 for not at all.
	UnstageWait time.Duration
	// OnCapacityFailure, if not nil, is called when a call failed for want of
	// space, from any goroutine. It must not block.
	OnCapacityFailure func()
}

// Driver answers the CSI calls of one node. Its methods may be called at any
// time from any goroutine. It keeps nothing between calls but locks and a copy
// of what LVM said.
type Driver struct {
	driverName, nodeName, version string

	volumes Volumes
	devices Devices
	mounter Mounter

	pools      func() []poolconfig.Pool
	metrics    *Metrics
	kubeletDir string
	extraPaths []string
	maxVolumes int64
	// unstageWait is that of [Options].
	unstageWait time.Duration
	// lastSlots is what LVM could hold when that was known last; 0 if it never was.
	lastSlots atomic.Int64

	onCapacityFailure func()

	operations    *operations
	admissions    *admissions
	wipes         *wipeTurns
	lastInventory atomic.Pointer[inventory]
	usages        flights
}

// New makes a driver; it starts nothing.
func New(opts Options) (*Driver, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	metrics := opts.Metrics
	if metrics == nil {
		metrics = NewMetrics()
	}
	d := &Driver{
		driverName: opts.DriverName,
		nodeName:   opts.NodeName,
		version:    opts.Version,
		volumes:    opts.Volumes,
		devices:    opts.Devices,
		mounter:    opts.Mounter,
		pools:      opts.Pools,
		metrics:    metrics,
		kubeletDir: opts.KubeletDir,
		extraPaths: opts.ExtraPaths,
		maxVolumes: opts.MaxVolumes,

		unstageWait:       opts.UnstageWait,
		onCapacityFailure: opts.OnCapacityFailure,

		operations: newOperations(),
		admissions: newAdmissions(),
		wipes:      newWipeTurns(cmp.Or(opts.MaxConcurrentWipes, defaultConcurrentWipes)),
	}
	metrics.watchPools(d)
	return d, nil
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
	require(o.Pools != nil, "Pools is nil")
	require(o.KubeletDir != "", "KubeletDir is empty")
	require(o.MaxVolumes >= 1, "MaxVolumes is below 1")
	require(o.MaxConcurrentWipes >= 0, "MaxConcurrentWipes is negative")
	require(o.UnstageWait >= 0, "UnstageWait is negative")
	return errors.Join(problems...)
}

// Stop refuses new calls and waits for the running effects, until ctx ends.
func (d *Driver) Stop(ctx context.Context) error { return d.operations.stop(ctx) }
