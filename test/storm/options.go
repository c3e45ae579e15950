package storm

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// Tracking says who knows what the nodes have room for.
type Tracking string

const (
	// Local is csi-local-scheduler with the plugin LocalCapacity.
	Local Tracking = "local"
	// InTree is the stock kube-scheduler, and CSIStorageCapacity objects.
	InTree Tracking = "intree"
	// None is the stock kube-scheduler, and nobody knows.
	None Tracking = "none"
)

// The limits on requests to the API server, the same for every variant.
const (
	// schedulerQPS and schedulerBurst are those of deploy/scheduler.
	schedulerQPS, schedulerBurst = 200, 400
	// managerQPS and managerBurst are for the controller manager, whose own defaults
	// (20 and 30) would bound each storm before anything else does.
	managerQPS, managerBurst = 200, 400
	// provisionerQPS and provisionerBurst are csi-provisioner's defaults
	// (--kube-api-qps, --kube-api-burst), for each node's one.
	provisionerQPS, provisionerBurst = 5, 10
	// capacityQPS, capacityBurst and capacityPoll are csi-provisioner's defaults for
	// CSIStorageCapacity objects (--kube-api-capacity-qps, --kube-api-capacity-burst,
	// --capacity-poll-interval), for each node's one.
	capacityQPS, capacityBurst = 1, 5
	capacityPoll               = time.Minute
)

// Programs are the files of the schedulers; one that is not used may be empty.
type Programs struct {
	// Local is csi-local-scheduler, Stock is kube-scheduler.
	Local, Stock string
}

// Options describe one storm.
type Options struct {
	// Nodes and PodsPerNode are at least 1 and 20. The pods may go to any node.
	Nodes, PodsPerNode int
	Tracking           Tracking
	// WithoutVolumes gives the pods none, for comparison.
	WithoutVolumes bool
	// FillPercent is demand / capacity; capacity is rounded so that volumes pack.
	FillPercent int
	// Seed decides the sizes, the classes and how long each volume takes.
	Seed uint64
	// PodsPerSecond is how fast pods are created; 0 is as fast as it goes.
	PodsPerSecond float64
	// CreateLatency is the mean time of one CreateVolume. A node makes one at a time.
	CreateLatency time.Duration
	// Turns is how often the scheduler is killed, spread over the storm: in turn the
	// leader, so that a standby takes over, and both.
	Turns int
	// Quiet ends a storm in which nothing was bound for so long, Limit one whose last
	// pod was created so long ago.
	Quiet, Limit time.Duration

	Programs Programs
	// Config is csi-local-scheduler's configuration file, as it ships. kube-scheduler
	// gets the same without the plugin.
	Config string
	// LogLevel is the scheduler's -v.
	LogLevel int
	// KeepLogs keeps the programs' logs, and says where.
	KeepLogs bool
	// Progress is told how far it is.
	Progress io.Writer
}

var errOptions = errors.New("storm: options")

func (o Options) validate() error {
	program := o.Programs.Stock
	switch o.Tracking {
	case Local:
		program = o.Programs.Local
	case InTree, None:
	default:
		return fmt.Errorf("%w: tracking %q: use %s, %s or %s", errOptions, o.Tracking, Local, InTree, None)
	}
	switch {
	case program == "":
		return fmt.Errorf("%w: tracking %s has no scheduler's file", errOptions, o.Tracking)
	case o.Nodes < 1 || o.PodsPerNode < minPodsPerNode:
		return fmt.Errorf("%w: %d nodes × %d pods: at least 1 × %d", errOptions, o.Nodes, o.PodsPerNode, minPodsPerNode)
	case o.FillPercent < 10 || o.FillPercent > 200:
		return fmt.Errorf("%w: fill of %d %%: from 10 to 200", errOptions, o.FillPercent)
	case o.PodsPerSecond < 0 || o.Turns < 0 || o.CreateLatency < 0 || o.Quiet <= 0 || o.Limit <= 0:
		return fmt.Errorf("%w: pods per second, turns and latency must not be negative, quiet and limit must be positive", errOptions)
	}
	return nil
}

// Name is that of the record: it says all that is not usual.
func (o Options) Name() string {
	name := string(o.Tracking)
	if o.WithoutVolumes {
		name += "-novolumes"
	}
	name += fmt.Sprintf("-%dx%d-fill%d-rate%g", o.Nodes, o.PodsPerNode, o.FillPercent, o.PodsPerSecond)
	if o.Turns > 0 {
		name += fmt.Sprintf("-turns%d", o.Turns)
	}
	return fmt.Sprintf("%s-seed%d", name, o.Seed)
}
