package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/controller"
	"github.com/csi-local/csi-local/pkg/driver"
)

// controllerOptions are the flags of csi-local controller.
type controllerOptions struct {
	driverName     string
	kubeconfig     string
	metricsAddress string
	csiEndpoint    string
	settings       controller.Settings
	election       electionOptions
}

type electionOptions struct {
	elect         bool
	namespace     string
	leaseDuration time.Duration
}

// minLeaseDuration leaves a leader three tries to renew even so.
const minLeaseDuration = 3 * time.Second

// addFlags declares the flags with their defaults.
func (o *controllerOptions) addFlags(fs *flag.FlagSet) {
	s, e := &o.settings, &o.election
	*s = controller.DefaultSettings()
	fs.StringVar(&o.driverName, "driver-name", capacity.DefaultDriverName,
		"name of the CSI driver: the provisioner of its StorageClasses and the owner of its volumes")
	fs.StringVar(&o.kubeconfig, "kubeconfig", "",
		"file that says how to reach the API server; that of the pod's service account if empty")
	fs.StringVar(&o.metricsAddress, "metrics-address", "",
		"host:port on which /metrics, /healthz and /readyz are served over HTTP; not served if empty")
	fs.StringVar(&o.csiEndpoint, "csi-endpoint", "",
		"socket, as unix:///absolute/path, on which csi-resizer beside it learns that expansion is the nodes' work; not served if empty")
	fs.DurationVar(&s.LostNodeDelay, "lost-node-delay", s.LostNodeDelay,
		"how long there must have been no Node object before anything is changed; a new leader counts anew")
	fs.IntVar(&s.MaxLostNodesPercent, "max-lost-nodes-percent", s.MaxLostNodesPercent,
		"nothing is changed while more than this share of the nodes with volumes or pools is missing, 1 to 100; one node always may")
	fs.BoolVar(&s.DryRun, "dry-run", false,
		"say in events and logs what would be changed about lost nodes, and change nothing")
	fs.DurationVar(&s.EventInterval, "event-interval", s.EventInterval,
		"least time between two events of the same reason about the same object")
	fs.BoolVar(&e.elect, "leader-elect", true,
		"wait for a Lease before doing anything, so that of several processes one acts")
	fs.StringVar(&e.namespace, "leader-elect-namespace", os.Getenv("POD_NAMESPACE"),
		"namespace of the Lease; $POD_NAMESPACE if not given")
	fs.DurationVar(&e.leaseDuration, "leader-elect-lease-duration", 15*time.Second,
		"how long the others wait for a leader that is silent, at least 3s")
}

// validate reports everything that is wrong, at once.
func (o *controllerOptions) validate() error {
	var problems []error
	add := func(flag, format string, args ...any) {
		problems = append(problems, fmt.Errorf("--%s: "+format, append([]any{flag}, args...)...))
	}
	if err := checkDriverName(o.driverName); err != nil {
		add("driver-name", "%w", err)
	}
	if _, _, err := net.SplitHostPort(o.metricsAddress); o.metricsAddress != "" && err != nil {
		add("metrics-address", "%q must be host:port or :port", o.metricsAddress)
	}
	if _, err := driver.ParseEndpoint(o.csiEndpoint); o.csiEndpoint != "" && err != nil {
		add("csi-endpoint", "%w", err)
	}
	if o.election.elect && o.election.namespace == "" {
		add("leader-elect-namespace", "give the namespace of the Lease, or set POD_NAMESPACE, or give --leader-elect=false")
	}
	if o.election.leaseDuration < minLeaseDuration {
		add("leader-elect-lease-duration", "%v must be at least %v", o.election.leaseDuration, minLeaseDuration)
	}
	if s := o.settings; s.LostNodeDelay < time.Second {
		add("lost-node-delay", "%v must be at least 1s", s.LostNodeDelay)
	}
	if s := o.settings; s.MaxLostNodesPercent < 1 || s.MaxLostNodesPercent > 100 {
		add("max-lost-nodes-percent", "%d must be from 1 to 100", s.MaxLostNodesPercent)
	}
	if s := o.settings; s.EventInterval < time.Second {
		add("event-interval", "%v must be at least 1s", s.EventInterval)
	}
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(problems...)
}

// Requests to the API server a second, and how many at once after a pause. They bound
// what a mistake could do in a minute, too.
const (
	controllerQPS   = 20
	controllerBurst = 40
)

// restConfig says how to reach the API server.
func (o *controllerOptions) restConfig(version string) (*rest.Config, error) {
	config, err := (&publishOptions{kubeconfig: o.kubeconfig}).restConfig("csi-local-controller/" + version)
	switch {
	case err != nil:
		return nil, err
	case config == nil:
		return nil, errors.New("no API server is known: give --kubeconfig, or run in a pod with a service account")
	}
	config.QPS, config.Burst = controllerQPS, controllerBurst
	return config, nil
}
