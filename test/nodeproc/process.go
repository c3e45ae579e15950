// Package nodeproc runs `csi-local node` as a user would, as a process with a
// pools file and a socket, and makes the calls that provisioner and kubelet
// make. Tests, benchmarks and tools share it.
package nodeproc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Options say what to run. Binary, Folder and Pools are required.
type Options struct {
	// Binary is the csi-local executable.
	Binary string
	// Folder holds the socket, the pools file, the log and the kubelet's
	// folder; it outlives the process, so that the next one finds its mounts.
	Folder string
	// Pools is the content of the pools file.
	Pools string
	// Args are added to the command line.
	Args []string
	// Env is added to the process's environment.
	Env []string
	// ReadyTimeout bounds the wait for Probe to say ready; 1 min if 0.
	ReadyTimeout time.Duration
}

// Node is a running `csi-local node`. Its methods may be called from any goroutine.
type Node struct {
	Identity   csi.IdentityClient
	Controller csi.ControllerClient
	Node       csi.NodeClient

	folder     string
	command    *exec.Cmd
	exited     chan struct{}
	exitErr    error // valid after exited is closed
	conn       *grpc.ClientConn
	metricsURL string
}

// Start runs the process and returns when it says that it is ready. The
// process lives until Stop or Kill, whatever becomes of ctx.
func Start(ctx context.Context, opts Options) (_ *Node, err error) {
	n := &Node{folder: opts.Folder, exited: make(chan struct{})}
	if err := os.MkdirAll(filepath.Join(n.KubeletDir(), "plugins_registry"), 0o750); err != nil {
		return nil, err
	}
	pools := filepath.Join(opts.Folder, "pools.yaml")
	if err := os.WriteFile(pools, []byte(opts.Pools), 0o600); err != nil {
		return nil, err
	}
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	n.metricsURL = "http://" + address + "/metrics"
	args := append([]string{"node", "--node-name=" + NodeName, "--endpoint=unix://" + n.socket(),
		"--pools-file=" + pools, "--kubelet-dir=" + n.KubeletDir(), "--metrics-address=" + address}, opts.Args...)
	if err := n.startProcess(ctx, opts, args); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Kill())
		}
	}()
	n.conn, err = grpc.NewClient("unix://"+n.socket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	n.Identity, n.Controller, n.Node = csi.NewIdentityClient(n.conn), csi.NewControllerClient(n.conn), csi.NewNodeClient(n.conn)
	timeout := opts.ReadyTimeout
	if timeout == 0 {
		timeout = time.Minute
	}
	return n, n.waitReady(ctx, timeout)
}

// NodeName is the name under which every Node runs.
const NodeName = "node-1"

func (n *Node) socket() string { return filepath.Join(n.folder, "csi.sock") }

// KubeletDir is the folder given as --kubelet-dir.
func (n *Node) KubeletDir() string { return filepath.Join(n.folder, "kubelet") }

// LogFile is where the output of all processes of this folder goes.
func (n *Node) LogFile() string { return filepath.Join(n.folder, "node.log") }

// PID is the process's number.
func (n *Node) PID() int { return n.command.Process.Pid }

func (n *Node) startProcess(ctx context.Context, opts Options, args []string) error {
	log, err := os.OpenFile(n.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own descriptor
	n.command = exec.CommandContext(context.WithoutCancel(ctx), opts.Binary, args...)
	n.command.Stdout, n.command.Stderr = log, log
	n.command.Env = append(os.Environ(), opts.Env...)
	if err := n.command.Start(); err != nil {
		return err
	}
	go func() {
		n.exitErr = n.command.Wait()
		close(n.exited)
	}()
	return nil
}

func (n *Node) waitReady(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		answer, err := n.Identity.Probe(ctx, &csi.ProbeRequest{})
		if err == nil && answer.GetReady().GetValue() {
			return nil
		}
		select {
		case <-n.exited:
			return fmt.Errorf("csi-local node ended before it was ready: %w; its log:\n%s", n.exitErr, n.log())
		case <-ctx.Done():
			return fmt.Errorf("csi-local node is not ready after %v (last answer %v, %w); its log:\n%s", timeout, answer, errors.Join(err, ctx.Err()), n.log())
		case <-poll.C:
		}
	}
}

func (n *Node) log() string {
	text, err := os.ReadFile(n.LogFile())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Exited is closed when the process has ended, however that came.
func (n *Node) Exited() <-chan struct{} { return n.exited }

// Stop asks the process to end (SIGTERM) and waits for it. An exit status
// other than 0 is an error.
func (n *Node) Stop(ctx context.Context) error {
	closeErr := n.conn.Close()
	if err := n.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-n.exited:
		return errors.Join(closeErr, n.exitErr)
	case <-ctx.Done():
		return fmt.Errorf("csi-local node does not stop: %w; its log:\n%s", ctx.Err(), n.log())
	}
}

// Kill ends the process as a crash would (SIGKILL) and waits for it.
func (n *Node) Kill() error {
	if err := n.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-n.exited
	if n.conn == nil {
		return nil
	}
	return n.conn.Close()
}

// Metrics reads what the process exports.
func (n *Node) Metrics(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.metricsURL, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(response.Body)
}

func freeAddress(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
