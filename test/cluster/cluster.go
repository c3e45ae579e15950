package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/csi-local/csi-local/test/testbed"
	"github.com/csi-local/csi-local/test/vm"
)

// MaxNodes is how many nodes a cluster can have.
const MaxNodes = 9

// clusterDNS is told to pods; nobody answers there, and no test looks a name up.
const clusterDNS = "10.0.0.10"

// nodeMemoryMiB is what a node takes at most of this machine's memory.
const nodeMemoryMiB = 2048

// Disk is one of a node's disks for local volumes.
type Disk struct {
	// SizeBytes is a multiple of 512. The file is sparse.
	SizeBytes int64
	// VolumeGroup is made of the disk at the node's first boot, together with the other
	// disks that name it; empty leaves the disk blank.
	VolumeGroup string
}

// Options say what to start. The zero value is a cluster of one node.
type Options struct {
	// Nodes is how many, 1 to MaxNodes; 1 if 0.
	Nodes int
	// Disks are those of each node; if nil, DefaultDisks.
	Disks []Disk
	// MemoryMiB is that of each node; 2048 if 0.
	MemoryMiB int
	// Kubelet is merged into the kubelets' configuration (kubelet.config.k8s.io/v1beta1),
	// key by key at the top.
	Kubelet map[string]any
	// ManagerFlags are added to those of the controller manager.
	ManagerFlags []string
	// WithoutScheduler leaves out the stock kube-scheduler.
	WithoutScheduler bool
	// Folder is where everything is written, in a folder that must not exist yet. If
	// empty, a temporary one.
	Folder string
}

// DefaultDisks fit the pools files of the shipped manifests: 10 GiB for pool-ssd, and a
// blank disk of 2 GiB (see [Node.Disk]).
func DefaultDisks() []Disk {
	return []Disk{{SizeBytes: 10 << 30, VolumeGroup: "vg-ssd"}, {SizeBytes: 2 << 30}}
}

// Cluster is a running cluster. Its methods may be called from any goroutine, but for Stop.
type Cluster struct {
	// ControlPlane is for what only it can do: stop and start the API server, tokens of
	// service accounts, the audit log.
	ControlPlane *testbed.Cluster
	prepared     prepared
	options      Options
	folder       string
	lock         *os.File // of the folder
	nodes        []*Node
	client       *kubernetes.Clientset
}

// New starts a cluster for one test, waits until its nodes are Ready, and ends it with the
// test. Logs of a test that has failed are kept, and the test says where.
func New(t *testing.T, options Options) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop := c.Stop
		if t.Failed() {
			t.Logf("the logs of the cluster are in %s", c.LogDir())
			stop = c.StopKeepingLogs
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Start returns when all nodes are Ready. ctx bounds the start only. The cluster ends with
// Stop, or with this process.
func Start(ctx context.Context, options Options) (_ *Cluster, err error) {
	if options.Nodes == 0 {
		options.Nodes = 1
	}
	if options.Nodes < 1 || options.Nodes > MaxNodes {
		return nil, fmt.Errorf("%d nodes are not between 1 and %d", options.Nodes, MaxNodes)
	}
	if options.Disks == nil {
		options.Disks = DefaultDisks()
	}
	if options.MemoryMiB == 0 {
		options.MemoryMiB = nodeMemoryMiB
	}
	c := &Cluster{options: options}
	if c.prepared, err = readPrepared(); err != nil {
		return nil, err
	}
	if c.folder, c.lock, err = makeFolder(options.Folder); err != nil {
		return nil, err
	}
	for i := range options.Nodes {
		c.nodes = append(c.nodes, &Node{cluster: c, index: i + 1})
	}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, fmt.Errorf("the logs are in %s", c.LogDir()), c.StopKeepingLogs())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	if err := openRoutes(ctx); err != nil {
		return err
	}
	var names []string
	for _, n := range c.nodes {
		names = append(names, n.Name())
	}
	var err error
	c.ControlPlane, err = testbed.Start(ctx, testbed.Options{
		ControllerManager: true, ManagerFlags: c.options.ManagerFlags, Scheduler: !c.options.WithoutScheduler,
		Address: vm.HostAddress, ServicePort: true, Kubelets: names, Folder: c.folder, LogDir: c.LogDir(),
	})
	if err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfig(c.Admin()); err != nil {
		return err
	}
	return c.each(func(n *Node) error {
		return errors.Join(n.Start(ctx), n.WaitReady(ctx))
	})
}

// each calls do for all nodes at once.
func (c *Cluster) each(do func(*Node) error) error {
	problems := make([]error, len(c.nodes))
	var wait sync.WaitGroup
	for i, n := range c.nodes {
		wait.Go(func() { problems[i] = do(n) })
	}
	wait.Wait()
	return errors.Join(problems...)
}

// openRoutes lets this machine's part of the network be what is between the nodes, and the
// place where the API server's Service is found: there is no kube-proxy.
func openRoutes(ctx context.Context) error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return err
	}
	return output(exec.CommandContext(ctx, "ip", "address", "replace", testbed.ServiceAddress+"/32", "dev", "lo"))
}

// Nodes are node-1, node-2 and so on.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// Admin may do everything, without a limit on requests.
func (c *Cluster) Admin() *rest.Config { return c.ControlPlane.Admin() }

// Client is one of Admin.
func (c *Cluster) Client() *kubernetes.Clientset { return c.client }

// Kubeconfig is an administrator's, for programs that this process starts.
func (c *Cluster) Kubeconfig() string { return c.ControlPlane.KubeconfigPath() }

// LogDir is where all logs are.
func (c *Cluster) LogDir() string { return filepath.Join(c.folder, "logs") }

// KubectlPath is the program.
func (c *Cluster) KubectlPath() string { return c.prepared.Kubectl }

// Kubectl runs kubectl and returns what it printed on stdout; what it said on stderr is
// part of the error.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.KubectlInput(ctx, "", args...)
}

// KubectlInput is Kubectl with its standard input, for "apply -f -".
func (c *Cluster) KubectlInput(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.prepared.Kubectl, append([]string{"--kubeconfig", c.Kubeconfig()}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	cmd.Env = append(os.Environ(), "KUBECACHEDIR="+filepath.Join(c.folder, "kubectl"))
	return stdoutOf(cmd)
}

// Must is Kubectl in a test that ends when it fails.
func (c *Cluster) Must(t testing.TB, args ...string) string {
	t.Helper()
	out, err := c.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Stop ends everything and removes what was written.
func (c *Cluster) Stop() error { return errors.Join(c.end(), os.RemoveAll(c.folder)) }

// StopKeepingLogs is Stop for a test that has failed.
func (c *Cluster) StopKeepingLogs() error {
	problems := []error{c.end()}
	entries, err := os.ReadDir(c.folder)
	problems = append(problems, err)
	for _, entry := range entries {
		if path := filepath.Join(c.folder, entry.Name()); path != c.LogDir() {
			problems = append(problems, os.RemoveAll(path))
		}
	}
	return errors.Join(problems...)
}

func (c *Cluster) end() error {
	err := c.each((*Node).PowerCut)
	if c.ControlPlane != nil {
		err = errors.Join(err, c.ControlPlane.Stop())
	}
	return errors.Join(err, c.lock.Close())
}
