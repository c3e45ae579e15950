package lvmcluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/csi-local/csi-local/test/nodeproc"
	"github.com/csi-local/csi-local/test/testbed"
	"github.com/csi-local/csi-local/test/vm"
)

// What the outside tells the tests.
const (
	envBinary     = "LVMCLUSTER_BINARY"
	envKubeconfig = "LVMCLUSTER_KUBECONFIG"
	envService    = "LVMCLUSTER_SERVICE"
)

// nodeAddress is the kernel's.
const nodeAddress = "10.80.0.2"

// Main is for TestMain. It builds csi-local, for a user of that name, starts a control
// plane, and runs the tests in the machine that the options describe. It does not return.
func Main(m *testing.M, user string, options vm.Options) { os.Exit(run(m, user, options)) }

func run(m *testing.M, user string, options vm.Options) int {
	if vm.Inside() {
		return vm.Run(m, options)
	}
	status, err := outside(m, user, options)
	if err != nil {
		fmt.Fprintln(os.Stderr, "lvmcluster:", err)
		return vm.StatusFailed
	}
	return status
}

func outside(m *testing.M, user string, options vm.Options) (status int, err error) {
	ctx := context.Background()
	if err := build(ctx, user); err != nil {
		return 0, err
	}
	if err := vm.EnterNetwork(); err != nil {
		return 0, err
	}
	cluster, err := testbed.Start(ctx, testbed.Options{Address: vm.HostAddress})
	if err != nil {
		return 0, err
	}
	defer func() {
		stop := cluster.Stop
		if status != 0 {
			fmt.Fprintln(os.Stderr, "lvmcluster: the logs of the control plane are in", cluster.LogDir())
			stop = cluster.StopKeepingLogs
		}
		err = errors.Join(err, stop())
	}()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(vm.HostAddress, "0"))
	if err != nil {
		return 0, err
	}
	server := &http.Server{Handler: service(cluster), ReadHeaderTimeout: 10 * time.Second}
	defer server.Close()
	go func() { _ = server.Serve(listener) }() // it ends with Close
	options.Address = netip.MustParseAddr(nodeAddress)
	options.Env = append(options.Env, envBinary+"="+os.Getenv(envBinary),
		envKubeconfig+"="+cluster.KubeconfigPath(), envService+"=http://"+listener.Addr().String())
	return vm.Run(m, options), nil
}

// build does what needs the world outside, or much time. It is called again in the
// network, where neither is to be had, and finds that it was done.
func build(ctx context.Context, user string) error {
	if os.Getenv(envBinary) != "" {
		return nil
	}
	for _, program := range []testbed.Program{testbed.Etcd, testbed.APIServer} {
		if _, err := program.Path(ctx, os.Stderr); err != nil {
			return err
		}
	}
	binary, err := nodeproc.Build(ctx, user)
	if err != nil {
		return err
	}
	return os.Setenv(envBinary, binary)
}

// Paths of the service.
const (
	pathAudit = "/audit"
	pathStop  = "/api-server/stop"
	pathStart = "/api-server/start"
)

// service is what tests ask of the outside.
func service(cluster *testbed.Cluster) http.Handler {
	mux := http.NewServeMux()
	serve := func(path string, do func(context.Context) (any, error)) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			answer, err := do(r.Context())
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			_ = json.NewEncoder(w).Encode(answer) // whoever asked has gone
		})
	}
	serve(pathAudit, func(ctx context.Context) (any, error) { return cluster.Audit(ctx) })
	serve(pathStop, func(context.Context) (any, error) { return nil, cluster.StopAPIServer() })
	serve(pathStart, func(ctx context.Context) (any, error) { return nil, cluster.StartAPIServer(ctx) })
	return mux
}
