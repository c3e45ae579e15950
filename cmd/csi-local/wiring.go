package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/csi-local/csi-local/pkg/blockdev"
	"github.com/csi-local/csi-local/pkg/capacity/reporter"
	"github.com/csi-local/csi-local/pkg/driver"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/orphans"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

// unstageWait is ample for kubelet to unstage the volumes of a pod that has ended, and less
// than csi-provisioner waits for an answer.
const unstageWait = 10 * time.Second

// node is the running parts of csi-local node.
type node struct {
	opts    *nodeOptions
	config  atomic.Pointer[poolconfig.Config]
	lvm     *lvm.Client
	metrics *driver.Metrics
	driver  *driver.Driver

	// reporter is nil if nothing is published; so is what belongs to it.
	reporter    *reporter.Reporter
	lvmChanges  <-chan struct{}
	stopChanges func()
	broadcaster record.EventBroadcaster

	// keeper is nil if nobody looks for orphans.
	keeper       *orphans.Keeper
	orphanEvents record.EventBroadcaster
}

// newNode reads the pools file and puts the parts together. LVM begins to be
// read in the background; nothing is served yet.
func newNode(opts *nodeOptions, version string) (*node, error) {
	n := &node{opts: opts, metrics: driver.NewMetrics()}
	config, err := poolconfig.Load(opts.poolsFile)
	if err != nil {
		return nil, err
	}
	n.config.Store(&config)
	socketPath, err := driver.ParseEndpoint(opts.socketEndpoint())
	if err != nil {
		return nil, err
	}
	if err := opts.prepareFolders(socketPath); err != nil {
		return nil, err
	}
	if n.lvm, err = lvm.NewClient(n.lvmOptions()); err != nil {
		return nil, err
	}
	n.driver, err = driver.New(driver.Options{
		DriverName: opts.driverName,
		NodeName:   opts.nodeName,
		Version:    version,
		Volumes:    n.lvm,
		Devices:    blockdev.Device{},
		Mounter:    driver.NewMounter(),
		Pools:      n.pools,
		Metrics:    n.metrics,
		KubeletDir: opts.kubeletDir,
		ExtraPaths: opts.extraPathList(),
		MaxVolumes: opts.maxVolumes,

		MaxConcurrentWipes: opts.maxWipes,
		UnstageWait:        unstageWait,
		OnCapacityFailure:  n.capacityFailed,
	})
	if err != nil {
		return nil, errors.Join(err, n.lvm.Close())
	}
	if n.reporter, err = n.newReporter(version); err != nil {
		return nil, errors.Join(err, n.lvm.Close())
	}
	if n.keeper, err = n.newKeeper(version); err != nil {
		return nil, errors.Join(err, n.lvm.Close())
	}
	return n, nil
}

func (n *node) lvmOptions() lvm.Options {
	return lvm.Options{
		VolumeGroups:    selectors(n.pools()),
		RunDir:          n.opts.lvmRunDir,
		LVMPath:         n.opts.lvmPath,
		LockDir:         n.opts.lvmLockDir,
		BackupDir:       n.opts.metadataBackupDir,
		WaitForUdev:     n.opts.lvmWaitForUdev,
		PlainExec:       n.opts.lvmPlainExec,
		RefreshInterval: n.opts.lvmRefreshInterval,
		Observe:         n.metrics.ObserveLVM,
	}
}

func (n *node) pools() []poolconfig.Pool { return n.config.Load().ForNode(n.opts.nodeName) }

// selectors names each volume group once. The parser has refused two pools
// that pin one group to different UUIDs.
func selectors(pools []poolconfig.Pool) []lvm.VolumeGroupSelector {
	var out []lvm.VolumeGroupSelector
	index := map[string]int{}
	for _, pool := range pools {
		i, seen := index[pool.VolumeGroup]
		if !seen {
			i = len(out)
			index[pool.VolumeGroup] = i
			out = append(out, lvm.VolumeGroupSelector{Name: pool.VolumeGroup})
		}
		if pool.VolumeGroupUUID != "" {
			out[i].UUID = pool.VolumeGroupUUID
		}
	}
	return out
}

// run serves until ctx ends or a part fails.
func (n *node) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listener, err := driver.Listen(ctx, n.opts.socketEndpoint())
	if err != nil {
		return err
	}
	parts := []func(context.Context) error{
		func(ctx context.Context) error { return n.driver.Serve(ctx, listener) },
		n.watchPools,
		n.startReporter,
		n.startKeeper,
	}
	if n.opts.metricsAddress != "" {
		parts = append(parts, n.serveMetrics)
	}
	if n.opts.register {
		parts = append(parts, driver.Registration{
			DriverName:  n.opts.driverName,
			RegistryDir: filepath.Join(n.opts.kubeletDir, "plugins_registry"),
			Endpoint:    listener.Addr().String(),
		}.Run)
	}
	errs := make([]error, len(parts))
	var running sync.WaitGroup
	for i, part := range parts {
		running.Go(func() {
			if errs[i] = part(ctx); errs[i] != nil {
				cancel() // one part failed: the others stop in their order
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// close ends the LVM session after the command that it runs.
func (n *node) close() error { return n.lvm.Close() }

// watchPools puts each new valid pools file to use.
func (n *node) watchPools(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	reload := make(chan struct{}, 1)
	go func() {
		for {
			select {
			case <-hangups:
				select {
				case reload <- struct{}{}:
				default: // one look is on its way, and it sees what is there then
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	poolconfig.Watch(ctx, poolconfig.WatchOptions{
		Path:    n.opts.poolsFile,
		Current: *n.config.Load(),
		Reload:  reload,
		OnChange: func(config poolconfig.Config) {
			n.config.Store(&config)
			if err := n.lvm.SetVolumeGroups(selectors(n.pools())); err != nil {
				logger.Error(err, "The new pools file's volume groups are not in use")
				return
			}
			logger.Info("The pools file has changed and is in use", "path", n.opts.poolsFile, "pools", len(n.pools()))
		},
		OnError: func(err error) {
			logger.Error(err, "The pools file is not valid; the pools that were valid before stay in use", "path", n.opts.poolsFile)
		},
	})
	return nil
}

// serveMetrics answers /metrics until ctx ends.
func (n *node) serveMetrics(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", n.metrics.Handler())
	return serveMetrics(ctx, n.opts.metricsAddress, mux)
}
