package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/csi-local/csi-local/pkg/capacity/reporter"
)

// publishOptions are the flags of csi-local node about the API server.
type publishOptions struct {
	kubeconfig string
	publish    bool
	cleanup    bool
	selector   string
	settings   reporter.Settings
}

func (o *publishOptions) addFlags(fs *flag.FlagSet) {
	s := &o.settings
	*s = reporter.DefaultSettings()
	fs.StringVar(&o.kubeconfig, "kubeconfig", "",
		"file that says how to reach the API server; that of the pod's service account if empty and the process runs in a pod")
	fs.BoolVar(&o.publish, "publish", true,
		"publish what the pools hold on this node's Node and CSINode, if an API server is known")
	fs.BoolVar(&o.cleanup, "cleanup", false,
		"remove what was published from this node's Node, and exit; no volume is touched")
	fs.BoolVar(&s.Paused, "publish-paused", false,
		"leave what is published as it is; the annotation <driver-name>/capacity-pause of the Node does it for one node")
	fs.StringVar(&o.selector, "publish-selector", "",
		"publish only while this node's Node has these labels, such as csi-local/publish=true, and leave what is published as it is else; always if empty")
	fs.BoolVar(&s.ForceTakeover, "force-takeover", false,
		"publish even if a newer version of csi-local published last")
	fs.DurationVar(&s.Interval, "publish-interval", s.Interval,
		"least time between two writes of one object, in the long run; a lower figure may follow at once")
	fs.DurationVar(&s.Spread, "publish-spread", s.Spread,
		"writes wait for a random time up to this, and lower figures up to a fifth of it, so that many nodes do not write at once; give 20ms for each node of a large cluster")
	fs.DurationVar(&s.RaiseDelay, "publish-raise-delay", s.RaiseDelay,
		"how long a higher figure must have been true before it is published")
	fs.Int64Var(&s.StepPercent, "publish-step-percent", s.StepPercent,
		"how much of a pool's figure comes back with each step of a recovery, 1 to 100")
	fs.DurationVar(&s.StepInterval, "publish-step-interval", s.StepInterval, "time between two steps of a recovery")
	fs.DurationVar(&s.Validity, "publish-validity", s.Validity,
		"how long LVM's last word on a pool counts when LVM does not answer; then the pool is published as 0")
	fs.DurationVar(&s.ErrorValidity, "publish-error-validity", s.ErrorValidity,
		"how long it counts, at most, when LVM says that the pool cannot be used")
	fs.DurationVar(&s.HoldDown, "publish-hold-down", s.HoldDown,
		"how long no figure is raised after somebody else changed the annotation")
}

// urgentShare is what a lower figure waits of what a higher one does.
const urgentShare = 5

func (o *publishOptions) validate(lvmRefreshInterval time.Duration) error {
	o.settings.UrgentSpread = o.settings.Spread / urgentShare
	problems := []error{}
	where, err := labels.Parse(o.selector)
	if err != nil {
		problems = append(problems, fmt.Errorf("--publish-selector: %q: %w", o.selector, err))
	}
	o.settings.Where = where
	if err := o.settings.Validate(); err != nil {
		problems = append(problems, fmt.Errorf("--publish-…: %w", err))
	}
	// The figure must still be good enough to raise when LVM is asked again.
	if least := 3 * lvmRefreshInterval; o.settings.Validity < least {
		problems = append(problems, fmt.Errorf("--publish-validity: %v must be at least three times --lvm-refresh-interval, %v", o.settings.Validity, least))
	}
	return errors.Join(problems...)
}

// restConfig returns nil if there is no API server to speak of.
func (o *publishOptions) restConfig(userAgent string) (*rest.Config, error) {
	config, err := rest.InClusterConfig()
	if o.kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	} else if errors.Is(err, rest.ErrNotInCluster) {
		return nil, nil //nolint:nilnil // a node without an API server is no error
	}
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	config.UserAgent = userAgent
	return config, nil
}

const bootIDFile = "/proc/sys/kernel/random/boot_id"

// newReporter returns nil if nothing is to be published.
func (n *node) newReporter(version string) (*reporter.Reporter, error) {
	o := &n.opts.publish
	if !o.publish {
		return nil, nil //nolint:nilnil // nothing to publish is no error
	}
	config, err := o.restConfig("csi-local/" + version)
	if config == nil || err != nil {
		return nil, err
	}
	events, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	config.Wrap(reporter.PaceRetries)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	bootID, err := os.ReadFile(bootIDFile)
	if err != nil {
		return nil, err
	}
	api := reporter.Client{Kubernetes: client, NodeName: n.opts.nodeName, DriverName: n.opts.driverName}
	var notify func(reporter.Notice)
	n.broadcaster, notify = n.newEvents(events)
	n.lvmChanges, n.stopChanges = n.lvm.Subscribe()
	return reporter.New(reporter.Options{
		ServerVersion: api.ServerVersion,

		DriverName: n.opts.driverName,
		Version:    version,
		BootID:     strings.TrimSpace(string(bootID)),
		Source:     n.driver,
		API:        api,
		Watch:      api.Watch,
		Changes:    n.lvmChanges,
		Settings:   o.settings,
		Metrics:    reporter.NewMetrics(n.metrics.Registerer()),
		Notify:     notify,
	})
}

// newEvents makes events on the Node. They name it the way kubelet's own do, so
// that kubectl describe node shows them. Each broadcaster has a limit of its own on
// the events about one object.
func (n *node) newEvents(client kubernetes.Interface) (record.EventBroadcaster, func(reporter.Notice)) {
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&corev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	recorder := broadcaster.NewRecorder(scheme.Scheme, v1.EventSource{Component: "csi-local", Host: n.opts.nodeName})
	ref := &v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: n.opts.nodeName, UID: types.UID(n.opts.nodeName), Namespace: metav1.NamespaceDefault}
	return broadcaster, func(notice reporter.Notice) {
		kind := v1.EventTypeNormal
		if notice.Warning {
			kind = v1.EventTypeWarning
		}
		recorder.Event(ref, kind, notice.Reason, notice.Message)
	}
}

// startReporter adds the reporter, if there is one, to what runs.
func (n *node) startReporter(ctx context.Context) error {
	if n.reporter == nil {
		klog.FromContext(ctx).Info("Nothing is published about the pools", "publish", n.opts.publish.publish, "apiServer", "none")
		return nil
	}
	n.reporter.Run(ctx)
	n.stopChanges()
	n.broadcaster.Shutdown()
	return nil
}

// capacityFailed passes on that a volume found no room.
func (n *node) capacityFailed() {
	if n.reporter != nil {
		n.reporter.VolumeFailed()
	}
}

// cleanupTimeout bounds csi-local node --cleanup.
const cleanupTimeout = time.Minute

// runCleanup is csi-local node --cleanup.
func (o *nodeOptions) runCleanup(ctx context.Context, version string, stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	config, err := o.publish.restConfig("csi-local/" + version)
	if err != nil {
		return err
	}
	if config == nil {
		return errors.New("--cleanup: no API server is known; give --kubeconfig")
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	api := reporter.Client{Kubernetes: client, NodeName: o.nodeName, DriverName: o.driverName}
	if err := reporter.Cleanup(ctx, api, o.driverName); err != nil {
		return fmt.Errorf("--cleanup: %w", err)
	}
	_, err = fmt.Fprintf(stdout, "Node %s has no annotations of %s any more\n", o.nodeName, o.driverName)
	return err
}
