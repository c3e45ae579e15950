package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/test/cluster/guest"
	"github.com/csi-local/csi-local/test/vm"
)

// Node is a throwaway kernel with containerd and kubelet. Its methods may be called from
// any goroutine.
type Node struct {
	cluster *Cluster
	index   int // from 1

	mu sync.Mutex
	on *run // nil while the power is off
	// bootID is what the Node object said before the last start.
	bootID string
}

// run is one boot of a node.
type run struct {
	machine *vm.Machine
	logs    []*os.File
	ended   chan struct{} // closed when err is final
	err     error
}

// ErrPower is returned when a node is off that has to be on, or on that has to be off.
var ErrPower = errors.New("the node's power")

// Name is the Node object's.
func (n *Node) Name() string { return fmt.Sprintf("node-%d", n.index) }

// Address is the node's own.
func (n *Node) Address() string { return fmt.Sprintf("10.80.0.%d", 10+n.index) }

// podSubnet is where the node's pods have their addresses.
func (n *Node) podSubnet() string { return fmt.Sprintf("10.244.%d.0/24", n.index) }

// Disk is the device, in the node, of Options.Disks[index].
func (n *Node) Disk(index int) string { return guest.Disk(index) }

func (n *Node) folder() string { return filepath.Join(n.cluster.folder, n.Name()) }

// shared is the folder that the kernel sees, too.
func (n *Node) shared() string { return filepath.Join(n.folder(), "shared") }

// Start switches the power on; the disks are as they were left. It returns when the kernel
// boots: see WaitReady.
func (n *Node) Start(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.on != nil {
		return fmt.Errorf("%w: %s is on", ErrPower, n.Name())
	}
	if object, err := n.cluster.client.CoreV1().Nodes().Get(ctx, n.Name(), metav1.GetOptions{}); err == nil {
		n.bootID = object.Status.NodeInfo.BootID
	}
	// What was asked for before a power cut is not answered any more.
	if err := errors.Join(os.RemoveAll(n.shared()), os.MkdirAll(n.shared(), 0o755)); err != nil {
		return err
	}
	disks, err := n.disks(ctx)
	if err != nil {
		return err
	}
	options, err := n.machineOptions(disks)
	if err != nil {
		return err
	}
	logs, err := n.openLogs()
	if err != nil {
		return err
	}
	options.Stdout, options.Stderr, options.Console, options.Log = logs[0], logs[1], logs[2], logs[2]
	r := &run{logs: logs, ended: make(chan struct{})}
	// It outlives the call that starts it, and ends with PowerCut.
	r.machine, err = vm.Start(context.Background(), options)
	if err != nil {
		r.closeLogs()
		return err
	}
	n.on = r
	go r.wait()
	return n.addRoute(ctx)
}

func (r *run) wait() {
	defer close(r.ended)
	defer r.closeLogs()
	status, err := r.machine.Wait()
	if err == nil {
		err = fmt.Errorf("exit status %d", status)
	}
	r.err = err
}

func (r *run) closeLogs() {
	for _, file := range r.logs {
		_ = file.Close()
	}
}

// openLogs opens those of kubelet, of containerd and everything else in the node, and of
// the kernel.
func (n *Node) openLogs() ([]*os.File, error) {
	r := &run{}
	for _, name := range []string{"kubelet", "containerd", "console"} {
		path := filepath.Join(n.cluster.LogDir(), n.Name()+"-"+name+".log")
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			r.closeLogs()
			return nil, err
		}
		r.logs = append(r.logs, file)
	}
	return r.logs, nil
}

// disks makes those that are not there.
func (n *Node) disks(ctx context.Context) ([]vm.Disk, error) {
	data := filepath.Join(n.folder(), "data.img")
	if _, err := os.Stat(data); errors.Is(err, os.ErrNotExist) {
		if err := copySparse(ctx, n.cluster.prepared.Disk, data); err != nil {
			return nil, err
		}
	}
	disks := []vm.Disk{{File: data}}
	for i, disk := range n.cluster.options.Disks {
		disks = append(disks, vm.Disk{File: filepath.Join(n.folder(), fmt.Sprintf("disk-%d.img", i)), SizeBytes: disk.SizeBytes})
	}
	return disks, nil
}

func (n *Node) machineOptions(disks []vm.Disk) (vm.Options, error) {
	spec := guest.Spec{
		Name: n.Name(), Address: n.Address(), Gateway: vm.HostAddress, PodSubnet: n.podSubnet(), ClusterDNS: clusterDNS,
		Kubelet: n.cluster.prepared.Kubelet, Kubeconfig: n.cluster.ControlPlane.KubeletKubeconfig(n.Name()), KubeletConfig: n.cluster.options.Kubelet,
	}
	for _, disk := range n.cluster.options.Disks {
		spec.VolumeGroups = append(spec.VolumeGroups, disk.VolumeGroup)
	}
	path := filepath.Join(n.folder(), "spec.json")
	if err := spec.Write(path); err != nil {
		return vm.Options{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return vm.Options{}, err
	}
	address, err := netip.ParseAddr(n.Address())
	return vm.Options{
		Command: []string{self}, Env: []string{guest.EnvSpec + "=" + path},
		Disks: disks, Shares: []vm.Share{{Host: n.shared(), Guest: guest.Folder}},
		MemoryMiB: n.cluster.options.MemoryMiB, Address: address, PowerCut: true, Backend: vm.UML,
	}, err
}

// addRoute leads to the node's pods. It goes away with the node's interface, and so has to
// be set at each start, when the interface has come.
func (n *Node) addRoute(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		err := output(exec.CommandContext(ctx, "ip", "route", "replace", n.podSubnet(), "via", n.Address()))
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-n.on.ended:
			return errors.Join(err, n.on.err)
		case <-tick.C:
		}
	}
}

// lookEvery is the time between two looks at something that is waited for.
const lookEvery = 200 * time.Millisecond

// WaitReady returns when the kubelet of this start has said that the node is Ready.
func (n *Node) WaitReady(ctx context.Context) error {
	n.mu.Lock()
	on, bootID := n.on, n.bootID
	n.mu.Unlock()
	if on == nil {
		return fmt.Errorf("%w: %s is off", ErrPower, n.Name())
	}
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		object, err := n.cluster.client.CoreV1().Nodes().Get(ctx, n.Name(), metav1.GetOptions{})
		if err == nil && object.Status.NodeInfo.BootID != bootID && ready(object) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s is not Ready: %w", n.Name(), context.Cause(ctx)), err)
		case <-on.ended:
			return fmt.Errorf("%s: %w", n.Name(), on.err)
		case <-tick.C:
		}
	}
}

const readyPatience = 3 * time.Minute

// PodReady tells whether the pod's condition Ready is true.
func PodReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func ready(object *corev1.Node) bool {
	for _, condition := range object.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// PowerCut ends the kernel between two instructions. It is no error if the power is off.
func (n *Node) PowerCut() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.on == nil {
		return nil
	}
	err := n.on.machine.CutPower()
	<-n.on.ended
	n.on = nil
	return err
}

// Reboot cuts the power, starts the node again and waits until it is Ready.
func (n *Node) Reboot(ctx context.Context) error {
	return errors.Join(n.PowerCut(), n.Start(ctx), n.WaitReady(ctx))
}

// Replace cuts the power and starts a node of the same name with new disks, as an
// administrator replaces a broken machine: the Node object and what is bound to it are
// left as they are. See WaitReady.
func (n *Node) Replace(ctx context.Context) error {
	return errors.Join(n.PowerCut(), os.RemoveAll(n.folder()), n.Start(ctx))
}

// CutNetwork loses all packets from and to the node, and to and from its pods.
func (n *Node) CutNetwork() error { return n.withMachine((*vm.Machine).Disconnect) }

// RestoreNetwork undoes CutNetwork.
func (n *Node) RestoreNetwork() error { return n.withMachine((*vm.Machine).Reconnect) }

func (n *Node) withMachine(do func(*vm.Machine) error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.on == nil {
		return fmt.Errorf("%w: %s is off", ErrPower, n.Name())
	}
	return do(n.on.machine)
}
