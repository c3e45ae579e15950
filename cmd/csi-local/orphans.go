package main

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/csi-local/csi-local/pkg/capacity/reporter"
	"github.com/csi-local/csi-local/pkg/driver"
	"github.com/csi-local/csi-local/pkg/orphans"
	"github.com/csi-local/csi-local/pkg/orphans/apiserver"
)

// orphanOptions are the flags of csi-local node about orphans.
type orphanOptions struct {
	policy      string
	adminSocket string
	settings    orphans.Settings
}

// policyIgnore is the one policy that the keeper does not know: there is none then.
const policyIgnore = "ignore"

const (
	defaultLVMRunDir = "/run/csi-local"
	adminSocketName  = "admin.sock"
)

func (o *orphanOptions) addFlags(fs *flag.FlagSet) {
	s := &o.settings
	*s = orphans.DefaultSettings()
	fs.StringVar(&o.policy, "orphan-policy", string(s.Policy),
		"what happens to volumes that never had a PersistentVolume and that no pod used: delete, keep, or ignore (nobody looks for orphans)")
	fs.DurationVar(&s.Grace, "orphan-grace", s.Grace,
		"how long the PersistentVolume of such a volume must have been missing, without a gap, before the volume is deleted")
	fs.DurationVar(&s.FirstLook, "orphan-first-look", s.FirstLook,
		"how long after it was made a volume's PersistentVolume is looked for first")
	fs.DurationVar(&s.Interval, "orphan-interval", s.Interval,
		"how often the PersistentVolume of each volume is looked for; the looks are spread over that time")
	fs.DurationVar(&s.Recheck, "orphan-recheck", s.Recheck,
		"how often that of an orphan is looked for")
	fs.DurationVar(&s.Hold, "orphan-hold", s.Hold,
		"how long nothing is decided after most PersistentVolumes were lost at once or the Node object was made anew")
	fs.StringVar(&o.adminSocket, "admin-socket", "",
		"socket on which csi-local orphans finds this process; <lvm-run-dir>/admin.sock if not given. Not served if nobody looks for orphans")
}

func (o *orphanOptions) validate() error {
	switch orphans.Policy(o.policy) {
	case policyIgnore:
	case orphans.PolicyDelete, orphans.PolicyKeep:
		o.settings.Policy = orphans.Policy(o.policy)
	default:
		return fmt.Errorf("--orphan-policy: %q must be %s, %s or %s", o.policy, orphans.PolicyDelete, orphans.PolicyKeep, policyIgnore)
	}
	if err := o.settings.Validate(); err != nil {
		return fmt.Errorf("--orphan-…: %w", err)
	}
	return nil
}

func (o *nodeOptions) adminSocketPath() string {
	if o.orphans.adminSocket != "" {
		return o.orphans.adminSocket
	}
	return filepath.Join(o.lvmRunDir, adminSocketName)
}

// newKeeper returns nil if nobody looks for orphans.
func (n *node) newKeeper(version string) (*orphans.Keeper, error) {
	o := &n.opts.orphans
	if o.policy == policyIgnore {
		return nil, nil //nolint:nilnil // an administrator wants none
	}
	config, err := n.opts.publish.restConfig("csi-local/" + version)
	if config == nil || err != nil {
		return nil, err
	}
	// A client has a limit on its requests: the reporter must not wait for looks.
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	var notify func(reporter.Notice)
	n.orphanEvents, notify = n.newEvents(client)
	return orphans.New(orphans.Options{
		DriverName: n.opts.driverName,
		NodeName:   n.opts.nodeName,
		Node:       n.driver,
		API:        apiserver.Client{Kubernetes: client, NodeName: n.opts.nodeName},
		Settings:   o.settings,
		Metrics:    orphans.NewMetrics(n.metrics.Registerer()),
		Notify:     func(notice orphans.Notice) { notify(reporter.Notice(notice)) },
	})
}

// startKeeper looks for orphans and answers csi-local orphans, until ctx ends.
func (n *node) startKeeper(ctx context.Context) error {
	if n.keeper == nil {
		klog.FromContext(ctx).Info("Nobody looks for orphans", "policy", n.opts.orphans.policy, "apiServer", "none")
		return nil
	}
	defer n.orphanEvents.Shutdown()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listener, err := driver.Listen(ctx, "unix://"+n.opts.adminSocketPath())
	if err != nil {
		return fmt.Errorf("--admin-socket: %w", err)
	}
	served := make(chan error, 1)
	go func() {
		defer cancel()
		served <- serveHTTP(ctx, listener, adminHandler(n.keeper))
	}()
	n.keeper.Run(ctx)
	return <-served
}
