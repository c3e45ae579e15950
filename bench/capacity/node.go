package main

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/capacity/reporter"
)

// agent is the reporters' user agent; the audit log shows it.
const agent = "csi-local-reporter"

const (
	gib      = int64(1) << 30
	poolName = "pool-ssd"
	volumes  = 256
)

// node has one volume group, which LVM has just read.
type node struct {
	name    string
	bytes   atomic.Int64
	changed chan struct{}
	looks   atomic.Int64 // how often the reporter has looked at it
}

func newNode(name string) *node {
	n := &node{name: name, changed: make(chan struct{}, 1)}
	n.bytes.Store(firstBytes)
	return n
}

// PoolReadings is what the driver would say.
func (n *node) PoolReadings(context.Context) []capacity.PoolReading {
	n.looks.Add(1)
	return []capacity.PoolReading{{Pool: poolName, AllocatableBytes: n.bytes.Load(), ExtentSizeBytes: 4 << 20}}
}

// RefreshPools has nothing to do.
func (n *node) RefreshPools(context.Context) error { return nil }

// MaxVolumesPerNode stays the same.
func (n *node) MaxVolumesPerNode() (int64, error) { return volumes, nil }

// wake tells the reporter that LVM has changed something.
func (n *node) wake() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// newReporter makes what csi-local node runs, with a connection of its own, as on
// a machine of its own.
func (n *node) newReporter(config *rest.Config, settings reporter.Settings, c *clock) (*reporter.Reporter, error) {
	config.UserAgent = agent
	config.QPS = 0 // client-go's default, as csi-local node has it
	var dialer net.Dialer
	config.Dial = dialer.DialContext
	config.Wrap(reporter.PaceRetries)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	api := reporter.Client{Kubernetes: client, NodeName: n.name, DriverName: capacity.DefaultDriverName}
	return reporter.New(reporter.Options{
		DriverName: capacity.DefaultDriverName, Version: "v1.2.3", BootID: "boot", Source: n, API: api, Watch: api.Watch,
		ServerVersion: api.ServerVersion, Changes: n.changed, Settings: settings,
		Metrics: reporter.NewMetrics(prometheus.NewRegistry()), Clock: c,
	})
}

// figure is the annotation's value for a pool of that many bytes.
func figure(bytes int64) string { return `{"` + poolName + `":"` + strconv.FormatInt(bytes, 10) + `"}` }

// quiet is a context in which reporters do not log: what is measured is not klog.
func quiet(ctx context.Context) context.Context { return klog.NewContext(ctx, klog.Logger{}) }
