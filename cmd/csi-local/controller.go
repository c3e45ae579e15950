package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/csi-local/csi-local/pkg/controller"
)

// controllerCommand reads the flags of csi-local controller and runs it until
// ctx ends.
func controllerCommand(ctx context.Context, args []string, stdout io.Writer) error {
	opts, err := parseControllerFlags(args, stdout)
	if err != nil {
		return err
	}
	if err := opts.validate(); err != nil {
		return fmt.Errorf("%w:\n%w", errUsage, err)
	}
	defer klog.Flush()
	c, err := newControllerProcess(opts, versionString())
	if err != nil {
		return err
	}
	return c.run(ctx)
}

// parseControllerFlags prints the flags to stdout when it is asked for help.
func parseControllerFlags(args []string, stdout io.Writer) (*controllerOptions, error) {
	opts := &controllerOptions{}
	return opts, parseServiceFlags("controller", opts.addFlags, args, stdout)
}

// controllerProcess is the running parts of csi-local controller.
type controllerProcess struct {
	opts     *controllerOptions
	client   controller.Client
	registry *prometheus.Registry
	metrics  *controller.Metrics
	version  string
	// leading and synced are for /readyz; watchdog for /healthz.
	leading, synced atomic.Bool
	watchdog        *leaderelection.HealthzAdaptor
}

func newControllerProcess(opts *controllerOptions, version string) (*controllerProcess, error) {
	config, err := opts.restConfig(version)
	if err != nil {
		return nil, err
	}
	c := &controllerProcess{opts: opts, version: version, registry: prometheus.NewRegistry(), watchdog: leaderelection.NewLeaderHealthzAdaptor(opts.election.leaseDuration)}
	c.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	c.metrics = controller.NewMetrics(c.registry)
	c.client.DriverName = opts.driverName
	if c.client.Kubernetes, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	if c.client.Metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return c, nil
}

// run serves and works until ctx ends or one part fails.
func (c *controllerProcess) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parts := []func(context.Context) error{c.elect, c.serve, c.serveCSI}
	errs := make([]error, len(parts))
	var running sync.WaitGroup
	for i, part := range parts {
		running.Go(func() {
			defer cancel()
			errs[i] = part(ctx)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// elect works when this process leads.
func (c *controllerProcess) elect(ctx context.Context) error {
	if !c.opts.election.elect {
		return c.work(ctx)
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	return controller.Election{
		Kubernetes:    c.client.Kubernetes,
		Namespace:     c.opts.election.namespace,
		Name:          controller.LeaseName(c.opts.driverName),
		Identity:      host + "_" + string(uuid.NewUUID()), // two processes may share a machine
		LeaseDuration: c.opts.election.leaseDuration,
		Watchdog:      c.watchdog,
	}.Run(ctx, c.work)
}

// work is what the leader does.
func (c *controllerProcess) work(ctx context.Context) error {
	c.leading.Store(true)
	c.metrics.Leading(true)
	defer c.metrics.Leading(false)
	broadcaster := record.NewBroadcaster()
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&corev1.EventSinkImpl{Interface: c.client.Kubernetes.CoreV1().Events("")})
	return controller.Run(ctx, c.client, controller.Options{
		DriverName: c.opts.driverName,
		Settings:   c.opts.settings,
		Recorder:   broadcaster.NewRecorder(scheme.Scheme, v1.EventSource{Component: "csi-local-controller"}),
		Metrics:    c.metrics,
	}, func() { c.synced.Store(true) })
}
