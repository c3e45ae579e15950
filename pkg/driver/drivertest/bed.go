package drivertest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/klog/v2"

	"github.com/csi-local/csi-local/pkg/blockdev"
	"github.com/csi-local/csi-local/pkg/driver"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

// Names that a [Bed] uses unless it is told otherwise.
const (
	DriverName = "kubernetes.io.csi.local"
	NodeName   = "n1"
)

// Options make a [Bed].
type Options struct {
	// Groups are the machine's volume groups; one, vgA of 1 disk of 4 GiB, if nil.
	Groups []lvmfake.Group
	// ThinPools are made in them.
	ThinPools []lvm.ThinPoolRequest
	// Pools is the driver's configuration; one thick pool, pool-thick in vgA, if nil.
	Pools []poolconfig.Pool
	// MaxVolumes is 100 if 0.
	MaxVolumes int64
	// UnstageWait is that of [driver.Options].
	UnstageWait time.Duration
	// LVMHook and MountHook see the first process; see [Bed.SetHooks].
	LVMHook   lvmfake.Hook
	MountHook Hook
}

// Bed is a node: a machine with its kernel, kubelet's folders, and a driver that
// serves on it over gRPC. The driver can be killed and started again, and the
// machine rebooted, between calls. A Bed is for one goroutine.
type Bed struct {
	// Dir is everything on "disk"; KubeletDir is in it.
	Dir, KubeletDir string
	Machine         *lvmfake.Machine
	Kernel          *Kernel
	// LVM and Mounter are those of the running process, Driver its driver.
	LVM     *lvmfake.LVM
	Mounter *Mounter
	Driver  *driver.Driver

	Identity   csi.IdentityClient
	Controller csi.ControllerClient
	Node       csi.NodeClient

	options Options
	pools   atomic.Pointer[[]poolconfig.Pool] // the driver reads it at any time
	cancel  context.CancelFunc
	served  chan error
	conn    *grpc.ClientConn
}

// ThickPool is a thick pool with the defaults of the pools file.
func ThickPool(name, volumeGroup string) poolconfig.Pool {
	return poolconfig.Pool{
		Name: name, VolumeGroup: volumeGroup, Type: "thick", OverprovisionRatio: 1,
		DefaultFilesystem: poolconfig.DefaultFilesystem, Wipe: poolconfig.DefaultWipe, MaxInlineSizeBytes: 1 << 30,
	}
}

// ThinPool is a thin pool with the defaults of the pools file.
func ThinPool(name, volumeGroup, thinPool string) poolconfig.Pool {
	pool := ThickPool(name, volumeGroup)
	pool.Type, pool.ThinPool = "thin", thinPool
	pool.DataWatermarkPercent = poolconfig.DefaultDataWatermarkPercent
	pool.MetadataWatermarkPercent = poolconfig.DefaultMetadataWatermarkPercent
	return pool
}

// New makes a machine and starts a driver on it. It does not stop by itself:
// call Close. The folder dir must exist and be short, for the socket's path.
func New(ctx context.Context, dir string, o Options) (*Bed, error) {
	if o.Groups == nil {
		o.Groups = []lvmfake.Group{{Name: "vgA", Disks: []lvmfake.Disk{{SizeBytes: 4 << 30}}}}
	}
	if o.Pools == nil {
		o.Pools = []poolconfig.Pool{ThickPool("pool-thick", "vgA")}
	}
	if o.MaxVolumes == 0 {
		o.MaxVolumes = 100
	}
	b := &Bed{Dir: dir, KubeletDir: filepath.Join(dir, "kubelet"), options: o}
	b.SetPools(o.Pools)
	b.Machine = lvmfake.NewMachine(filepath.Join(dir, "dev"))
	b.Kernel = NewKernel(b.Machine)
	for _, sub := range []string{"kubelet/pods", "kubelet/plugins", "dev/.disks", "dev/.inactive"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o750); err != nil {
			return nil, err
		}
	}
	for _, group := range o.Groups {
		if _, err := b.Machine.AddGroup(group); err != nil {
			return nil, err
		}
	}
	if err := b.makeThinPools(ctx); err != nil {
		return nil, err
	}
	return b, b.Start(ctx)
}

func (b *Bed) makeThinPools(ctx context.Context) error {
	if len(b.options.ThinPools) == 0 {
		return nil
	}
	l, err := lvmfake.New(lvmfake.Options{Machine: b.Machine, VolumeGroups: b.selectors()})
	if err != nil {
		return err
	}
	for _, request := range b.options.ThinPools {
		if _, err := l.CreateThinPool(ctx, request); err != nil {
			return err
		}
	}
	return l.Close()
}

func (b *Bed) selectors() []lvm.VolumeGroupSelector {
	var out []lvm.VolumeGroupSelector
	for _, group := range b.options.Groups {
		out = append(out, lvm.VolumeGroupSelector{Name: group.Name})
	}
	return out
}

// ForTest is New in a test's own folder, closed at the test's end.
func ForTest(t testing.TB, o Options) *Bed {
	t.Helper()
	// Not t.TempDir: its path can be too long for a socket.
	dir, err := os.MkdirTemp("", "bed")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	b, err := New(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// SetHooks sets the hooks of the running process and of those to come.
func (b *Bed) SetHooks(lvmHook lvmfake.Hook, mountHook Hook) {
	b.options.LVMHook, b.options.MountHook = lvmHook, mountHook
	b.LVM.SetHook(lvmHook)
	b.Mounter.SetHook(mountHook)
}

// Start starts a driver process and connects to it.
func (b *Bed) Start(ctx context.Context) (err error) {
	if b.LVM, err = lvmfake.New(lvmfake.Options{Machine: b.Machine, VolumeGroups: b.selectors(), Hook: b.options.LVMHook}); err != nil {
		return err
	}
	b.Mounter = b.Kernel.Mounter(b.options.MountHook)
	b.Driver, err = driver.New(driver.Options{
		DriverName: DriverName, NodeName: NodeName, Version: "test",
		Volumes: b.LVM, Devices: b.LVM.Devices(blockdev.Device{RegularFiles: true}), Mounter: b.Mounter,
		Pools:      func() []poolconfig.Pool { return *b.pools.Load() },
		KubeletDir: b.KubeletDir, MaxVolumes: b.options.MaxVolumes, UnstageWait: b.options.UnstageWait,
	})
	if err != nil {
		return err
	}
	endpoint := "unix://" + filepath.Join(b.Dir, "csi.sock")
	listener, err := driver.Listen(ctx, endpoint)
	if err != nil {
		return err
	}
	var serving context.Context
	serving, b.cancel = context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), klog.Logger{}))
	b.served = make(chan error, 1)
	d := b.Driver
	go func() { b.served <- d.Serve(serving, listener) }()
	if b.conn, err = grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		return err
	}
	b.Identity = csi.NewIdentityClient(b.conn)
	b.Controller = csi.NewControllerClient(b.conn)
	b.Node = csi.NewNodeClient(b.conn)
	return nil
}

// Clients implement [Service].
func (b *Bed) Clients() (csi.ControllerClient, csi.NodeClient) { return b.Controller, b.Node }

// Kubelet implements [Service].
func (b *Bed) Kubelet() string { return b.KubeletDir }

// Close stops the driver and waits for what it is doing. Without one that runs, because
// the last Start has failed, it does nothing.
func (b *Bed) Close() error {
	if b.served == nil {
		return nil
	}
	b.cancel()
	err := errors.Join(<-b.served, b.conn.Close())
	b.served = nil
	return err
}

// Restart stops the driver process and starts another.
func (b *Bed) Restart(ctx context.Context) error {
	return errors.Join(b.Close(), b.Start(ctx))
}

// Reboot stops the driver, unmounts and deactivates all, and starts it again.
func (b *Bed) Reboot(ctx context.Context) error {
	return errors.Join(b.Close(), b.Kernel.Reboot(), b.Start(ctx))
}

// SetPools replaces the driver's configuration.
func (b *Bed) SetPools(pools []poolconfig.Pool) { b.pools.Store(&pools) }
