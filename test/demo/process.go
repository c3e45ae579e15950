package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/csi-local/csi-local/test/nodeproc"
	"github.com/csi-local/csi-local/test/screen"
)

const poolsFile = `pools:
- {name: ` + thickPool + `, volumeGroup: ` + thickGroup + `, type: thick, maxInlineSize: 1Gi}
- {name: ` + thinPool + `, volumeGroup: ` + thinGroup + `, type: thin, thinPool: ` + thinPoolLV + `, overprovisionRatio: 2}
`

const (
	stopTime = time.Minute
	callTime = 2 * time.Minute
	// registryTime is how long kubelet has to wait for the socket after the driver is ready.
	registryTime = 10 * time.Second
	logTail      = 30
)

// startDriver starts csi-local and waits until it says that it is ready.
func (n *node) startDriver(ctx context.Context) error {
	for line := range strings.Lines(poolsFile) {
		n.p.Note("pools.yaml │ %s", strings.TrimSpace(line))
	}
	start := time.Now()
	process, err := nodeproc.Start(ctx, nodeproc.Options{Binary: n.binary, Folder: n.dir, Pools: poolsFile})
	if err != nil {
		return err
	}
	n.driver = process
	if err := n.showCommandLine(); err != nil {
		return err
	}
	n.p.Call("Probe", "ready: LVM answers", time.Since(start))
	return nil
}

// showCommandLine prints the driver's command line as the kernel has it.
func (n *node) showCommandLine() error {
	argv, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", n.driver.PID()))
	if err != nil {
		return err
	}
	words := strings.Split(strings.TrimRight(string(argv), "\x00"), "\x00")
	words[0] = filepath.Base(words[0])
	for i, line := range screen.Fold(strings.ReplaceAll(strings.Join(words, " "), n.dir, "…"), screen.Width-10) {
		n.p.Note("%s %s", [2]string{"#", "   "}[min(i, 1)], line)
	}
	return nil
}

// register plays kubelet's plugin watcher: it finds the socket in its registry, asks what
// it is, and says that the plugin was accepted.
func (n *node) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	socket, err := n.registrationSocket(ctx)
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := registration.NewRegistrationClient(conn)
	info, err := call(ctx, n, "GetInfo", client.GetInfo, &registration.InfoRequest{}, func(r *registration.PluginInfo) string {
		return r.GetName() + " at " + strings.Replace(r.GetEndpoint(), n.dir, "…", 1)
	})
	if err != nil {
		return err
	}
	if info.GetType() != registration.CSIPlugin {
		return fmt.Errorf("the plugin registers as %q, not as %q", info.GetType(), registration.CSIPlugin)
	}
	n.driverName = info.GetName()
	if _, err := client.NotifyRegistrationStatus(ctx, &registration.RegistrationStatus{PluginRegistered: true}); err != nil {
		return err
	}
	about, err := call(ctx, n, "NodeGetInfo", n.driver.Node.NodeGetInfo, &csi.NodeGetInfoRequest{},
		func(r *csi.NodeGetInfoResponse) string {
			return fmt.Sprintf("node %s, at most %d volumes", r.GetNodeId(), r.GetMaxVolumesPerNode())
		})
	if err != nil {
		return err
	}
	if about.GetNodeId() != nodeproc.NodeName || about.GetMaxVolumesPerNode() < 1 {
		return fmt.Errorf("NodeGetInfo: %v", about)
	}
	return nil
}

// registrationSocket waits for the driver's socket in kubelet's registry.
func (n *node) registrationSocket(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, registryTime)
	defer cancel()
	pattern := filepath.Join(n.driver.KubeletDir(), "plugins_registry", "*.sock")
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		sockets, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		if len(sockets) == 1 {
			return sockets[0], nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return "", fmt.Errorf("%s: %d sockets, not one: %w", pattern, len(sockets), ctx.Err())
		}
	}
}

// stopDriver ends the driver as its pod is ended, and wants it to end well.
func (n *node) stopDriver(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	start := time.Now()
	if err := n.driver.Stop(ctx); err != nil {
		return err
	}
	n.p.Call("SIGTERM", "ended with status 0", time.Since(start))
	return nil
}

// lastLog returns the end of the driver's log.
func (n *node) lastLog() string {
	if n.driver == nil {
		return ""
	}
	text, err := os.ReadFile(n.driver.LogFile())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-logTail):], "\n")
}

// call makes one call with a deadline, and prints what describe says of its answer.
func call[Q, A any](ctx context.Context, n *node, name string, method func(context.Context, *Q, ...grpc.CallOption) (*A, error),
	request *Q, describe func(*A) string,
) (*A, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	start := time.Now()
	answer, err := method(ctx, request)
	took := time.Since(start)
	if err != nil {
		return answer, fmt.Errorf("%s: %w", name, err)
	}
	n.p.Call(name, describe(answer), took)
	return answer, nil
}
