package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// Options say what to start.
type Options struct {
	// ControllerManager starts one too: without it, no service accounts are made,
	// nothing is collected, and pods may name no service account.
	ControllerManager bool
	// Address is the IP address that the API server listens on; 127.0.0.1 if empty.
	// etcd stays on loopback in any case.
	Address string
	// ManagerFlags are added to those of the controller manager.
	ManagerFlags []string
	// Scheduler starts a stock kube-scheduler too.
	Scheduler bool
	// ServicePort lets the API server listen on port 443 of every address and not on a
	// free port of Address alone, so that pods find it where the Service "kubernetes"
	// says, at ServiceAddress. It takes a network namespace of one's own.
	ServicePort bool
	// Kubelets are the names of nodes whose kubelets may come: see KubeletKubeconfig.
	Kubelets []string
	// Folder is where a folder is made for all that is written; if empty, the one for
	// temporary files.
	Folder string
	// LogDir is where logs are written and kept. If empty, it is a folder that Stop removes.
	LogDir string
	// WithoutAudit leaves out the audit log: see Cluster.Audit. Tests that write very
	// much do so.
	WithoutAudit bool
	// Progress is told when programs are built; if nil, os.Stderr is.
	Progress io.Writer
}

// Cluster is a running control plane. Its methods may be called from any
// goroutine, but for StopAPIServer, StartAPIServer and Stop.
type Cluster struct {
	options Options
	// dir holds everything that is written; logs is a folder in it.
	dir, logs string
	programs  map[Program]string
	etcdPort  int
	apiPort   int
	token     string
	// tokens are the kubelets', by the name of the node.
	tokens    map[string]string
	etcd      *Process
	apiServer *Process
	manager   *Process
	scheduler *Process
}

// New starts a cluster for one test, and ends it with the test. The logs of a
// test that has failed are kept, and the test says where.
func New(t *testing.T, options Options) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop := c.Stop
		if t.Failed() {
			t.Logf("the logs of the control plane are in %s", c.logs)
			stop = c.StopKeepingLogs
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// startPatience bounds a start of the API server.
const startPatience = 2 * time.Minute

// Start returns when the API server is ready. ctx bounds the start, and not the
// life of the cluster: that ends with Stop, or with this process.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	if options.Progress == nil {
		options.Progress = os.Stderr
	}
	if options.Address == "" {
		options.Address = loopbackAddress
	}
	c := &Cluster{options: options, programs: map[Program]string{}, tokens: map[string]string{}}
	for _, program := range options.programs() {
		path, err := program.Path(ctx, options.Progress)
		if err != nil {
			return nil, err
		}
		c.programs[program] = path
	}
	var err error
	if c.dir, err = os.MkdirTemp(options.Folder, "csi-local-testbed-"); err != nil {
		return nil, err
	}
	if c.logs = options.LogDir; c.logs == "" {
		c.logs = filepath.Join(c.dir, "logs")
	}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (o Options) programs() []Program {
	wanted := []Program{Etcd, APIServer}
	if o.ControllerManager {
		wanted = append(wanted, ControllerManager)
	}
	if o.Scheduler {
		wanted = append(wanted, Scheduler)
	}
	return wanted
}

func (c *Cluster) start(ctx context.Context) error {
	if err := os.MkdirAll(c.logs, 0o700); err != nil {
		return err
	}
	if err := c.writeFiles(); err != nil {
		return err
	}
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	c.etcdPort, c.apiPort = ports[0], ports[1]
	if c.options.ServicePort {
		c.apiPort = servicePort
	}
	if c.etcd, err = startProcess(string(Etcd), c.programs[Etcd], c.logs, c.etcdFlags(ports[2])...); err != nil {
		return err
	}
	if err := c.StartAPIServer(ctx); err != nil {
		return err
	}
	if err := c.writeKubeconfigs(); err != nil {
		return err
	}
	if c.options.ControllerManager {
		if c.manager, err = startProcess(string(ControllerManager), c.programs[ControllerManager], c.logs, c.managerFlags()...); err != nil {
			return err
		}
	}
	if c.options.Scheduler {
		c.scheduler, err = startProcess(string(Scheduler), c.programs[Scheduler], c.logs, c.schedulerFlags()...)
	}
	return err
}

// StartAPIServer starts it on the same port and etcd as before, and returns
// when it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	var err error
	if c.apiServer, err = startProcess(string(APIServer), c.programs[APIServer], c.logs, c.apiServerFlags()...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	return c.waitReady(ctx)
}

// StopAPIServer kills the API server; etcd keeps what was written.
func (c *Cluster) StopAPIServer() error { return c.apiServer.Kill() }

// StopScheduler kills the scheduler of Options.Scheduler, for good.
func (c *Cluster) StopScheduler() error { return c.scheduler.Kill() }

// Stop ends everything and removes what it has written.
func (c *Cluster) Stop() error {
	return errors.Join(c.killAll(), os.RemoveAll(c.dir))
}

// StopKeepingLogs is Stop for a test that has failed.
func (c *Cluster) StopKeepingLogs() error {
	problems := []error{c.killAll()}
	entries, err := os.ReadDir(c.dir)
	problems = append(problems, err)
	for _, entry := range entries {
		if path := c.path(entry.Name()); path != c.logs {
			problems = append(problems, os.RemoveAll(path))
		}
	}
	return errors.Join(problems...)
}

// LogDir is where the programs' logs and the audit log are.
func (c *Cluster) LogDir() string { return c.logs }

// Address is the API server's.
func (c *Cluster) Address() string {
	return "https://" + net.JoinHostPort(c.options.Address, strconv.Itoa(c.apiPort))
}

func (c *Cluster) killAll() error {
	var problems []error
	for _, p := range []*Process{c.scheduler, c.manager, c.apiServer, c.etcd} {
		if p != nil {
			problems = append(problems, p.Kill())
		}
	}
	return errors.Join(problems...)
}

func (c *Cluster) path(name string) string { return filepath.Join(c.dir, name) }

const (
	loopbackAddress = "127.0.0.1"
	anyAddress      = "0.0.0.0"
	servicePort     = 443
)

// ServiceAddress is the one of the Service "kubernetes". Whoever starts a cluster with
// Options.ServicePort gives it to an interface.
const ServiceAddress = "10.0.0.1"

func loopback(port int) string { return net.JoinHostPort(loopbackAddress, strconv.Itoa(port)) }

// freePorts returns ports that nobody listens on, each another.
func freePorts(count int) ([]int, error) {
	var ports []int
	for range count {
		listener, err := net.Listen("tcp", loopback(0)) //nolint:noctx // it answers at once
		if err != nil {
			return nil, fmt.Errorf("looking for a free port: %w", err)
		}
		// Held until all are found, or the same one could come again.
		defer func() { _ = listener.Close() }()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
