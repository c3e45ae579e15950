package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	thickGroup = "bench-thick"
	thinGroup  = "bench-thin"
	thinPool   = "pool"
	gib        = int64(1) << 30
	mib        = int64(1) << 20
)

const poolsFile = `pools:
- name: thick
  volumeGroup: bench-thick
  type: thick
- name: thin
  volumeGroup: bench-thin
  type: thin
  thinPool: pool
  overprovisionRatio: 100
`

// testbed is two volume groups and a running csi-local node process.
type testbed struct {
	opts       options
	log        io.Writer
	folder     string
	kubelet    string
	node       *exec.Cmd
	nodeLog    *os.File
	conn       *grpc.ClientConn
	controller csi.ControllerClient
	nodeClient csi.NodeClient
	metricsURL string
}

func setUp(ctx context.Context, opts options, log io.Writer) (bed *testbed, err error) {
	folder, err := os.MkdirTemp("", "bench-lvm")
	if err != nil {
		return nil, err
	}
	bed = &testbed{opts: opts, log: log, folder: folder, kubelet: filepath.Join(folder, "kubelet")}
	defer func() {
		if err != nil {
			bed.tearDown()
		}
	}()
	for _, args := range [][]string{
		{"vgcreate", "-y", "-ff", thickGroup, opts.disks[0]},
		{"vgcreate", "-y", "-ff", thinGroup, opts.disks[1]},
		{"lvcreate", "-y", "--type", "thin-pool", "-l", "90%FREE", "-n", thinPool, thinGroup},
	} {
		if _, err := bed.plain(ctx, args...); err != nil {
			return bed, err
		}
	}
	return bed, bed.startNode(ctx)
}

// plain runs an LVM command as an administrator would, with LVM's own
// configuration, and says how long it took.
func (b *testbed) plain(ctx context.Context, args ...string) (time.Duration, error) {
	began := time.Now()
	output, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, output)
	}
	return time.Since(began), nil
}

func (b *testbed) startNode(ctx context.Context) error {
	pools := filepath.Join(b.folder, "pools.yaml")
	if err := os.WriteFile(pools, []byte(poolsFile), 0o600); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(b.kubelet, "plugins_registry"), 0o750); err != nil {
		return err
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	b.metricsURL = "http://" + address + "/metrics"
	socket := filepath.Join(b.folder, "csi.sock")
	if b.nodeLog, err = os.Create(filepath.Join(b.folder, "node.log")); err != nil {
		return err
	}
	b.node = exec.CommandContext(context.WithoutCancel(ctx), b.opts.binary, "node",
		"--node-name=bench", "--endpoint=unix://"+socket, "--pools-file="+pools,
		"--kubelet-dir="+b.kubelet, "--metrics-address="+address)
	b.node.Stdout, b.node.Stderr = b.nodeLog, b.nodeLog
	if err := b.node.Start(); err != nil {
		return err
	}
	b.conn, err = grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	b.controller, b.nodeClient = csi.NewControllerClient(b.conn), csi.NewNodeClient(b.conn)
	ready, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		probe, err := csi.NewIdentityClient(b.conn).Probe(ready, &csi.ProbeRequest{}, grpc.WaitForReady(true))
		if err == nil && probe.GetReady().GetValue() {
			return nil
		}
		select {
		case <-ready.Done():
			log, _ := os.ReadFile(b.nodeLog.Name())
			return fmt.Errorf("csi-local node is not ready after a minute (last answer: %v, %w); its log:\n%s", probe, errors.Join(err, ready.Err()), log)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// tearDown ends what setUp began; what cannot be undone is only said, because
// the disks are thrown away anyway.
func (b *testbed) tearDown() {
	if b.conn != nil {
		_ = b.conn.Close() // nothing depends on it any more
	}
	if b.node != nil && b.node.Process != nil {
		if err := errors.Join(b.node.Process.Signal(os.Interrupt), b.node.Wait()); err != nil {
			fmt.Fprintln(b.log, "bench-lvm: csi-local node:", err)
		}
	}
	if err := os.RemoveAll(b.folder); err != nil {
		fmt.Fprintln(b.log, "bench-lvm:", err)
	}
}

func freeAddress() (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// metrics reads what the node process says of itself.
func (b *testbed) metrics(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.metricsURL, nil)
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

// processesStarted is the kernel's count of processes and threads made since boot.
func processesStarted() (int, error) {
	file, err := os.Open("/proc/stat")
	if err != nil {
		return 0, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if count, ok := strings.CutPrefix(lines.Text(), "processes "); ok {
			return strconv.Atoi(strings.TrimSpace(count))
		}
	}
	return 0, errors.Join(errors.New("/proc/stat has no line processes"), lines.Err())
}

// peakRSS is the highest resident memory of a process so far, in bytes (proc(5), VmHWM).
func peakRSS(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			return kib * 1024, err
		}
	}
	return 0, fmt.Errorf("process %d has no VmHWM", pid)
}
