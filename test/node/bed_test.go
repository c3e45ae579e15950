package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/csi-local/csi-local/pkg/blockdev"
	"github.com/csi-local/csi-local/pkg/driver"
	"github.com/csi-local/csi-local/pkg/driver/drivertest"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmtest"
	"github.com/csi-local/csi-local/pkg/poolconfig"
	"github.com/csi-local/csi-local/test/vm"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30

	writer      = csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	multiWriter = csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	reader      = csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY
)

func TestMain(m *testing.M) {
	vm.Main(m, vm.Options{Disks: []vm.Disk{{SizeBytes: 3 * gib}, {SizeBytes: 3 * gib}}})
}

// bed is a driver on a node with two volume groups: vgA, a thick pool, and vgB
// with a thin pool.
type bed struct {
	real       *lvmtest.Real
	kubeletDir string
	mounter    driver.Mounter

	lvm        *lvm.Client
	controller csi.ControllerClient
	node       csi.NodeClient
	stop       func() error
}

func pools() []poolconfig.Pool {
	thick := poolconfig.Pool{
		Name: "pool-thick", VolumeGroup: "vgA", Type: "thick", OverprovisionRatio: 1,
		DefaultFilesystem: poolconfig.DefaultFilesystem, Wipe: poolconfig.DefaultWipe, MaxInlineSizeBytes: gib,
	}
	thin := thick
	thin.Name, thin.VolumeGroup, thin.Type, thin.ThinPool = "pool-thin", "vgB", "thin", "tp0"
	thin.OverprovisionRatio, thin.DataWatermarkPercent, thin.MetadataWatermarkPercent = 4, 90, 90
	return []poolconfig.Pool{thick, thin}
}

func newBed(t *testing.T) *bed {
	t.Helper()
	dir, err := os.MkdirTemp("/run", "bed") // short, for the socket; a tmpfs in which one may mount
	must(t, err)
	b := &bed{kubeletDir: filepath.Join(dir, "kubelet"), mounter: driver.NewMounter()}
	must(t, os.MkdirAll(filepath.Join(b.kubeletDir, "pods"), 0o750), os.MkdirAll(filepath.Join(b.kubeletDir, "plugins"), 0o750))
	b.real = lvmtest.NewReal(t, strings.Fields(os.Getenv(vm.EnvDisks)), lvm.Options{})
	b.real.AddGroup(t, "vgA", 4*mib, 1)
	b.real.AddGroup(t, "vgB", 4*mib, 1)
	b.real.Admin(t, "lvcreate", "-y", "--type", "thin-pool", "-L", "1g", "--zero", "y", "-n", "tp0", "vgB")
	b.start(t)
	t.Cleanup(func() {
		if err := errors.Join(b.stop(), b.unmountAll(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return b
}

// start starts a driver process.
func (b *bed) start(t *testing.T) {
	t.Helper()
	// Not from the test's context: the cleanup needs them after its end.
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var err error
	b.lvm, err = lvm.NewClient(lvm.Options{
		VolumeGroups: []lvm.VolumeGroupSelector{{Name: "vgA"}, {Name: "vgB"}}, RunDir: filepath.Join(filepath.Dir(b.kubeletDir), "lvm"),
	})
	must(t, err)
	d, err := driver.New(driver.Options{
		DriverName: "kubernetes.io.csi.local", NodeName: "n1", Version: "test",
		Volumes: b.lvm, Devices: blockdev.Device{}, Mounter: b.mounter, Pools: pools,
		KubeletDir: b.kubeletDir, MaxVolumes: 100,
	})
	must(t, err)
	endpoint := "unix://" + filepath.Join(b.kubeletDir, "csi.sock")
	listener, err := driver.Listen(ctx, endpoint)
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- d.Serve(ctx, listener) }()
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	b.controller, b.node = csi.NewControllerClient(conn), csi.NewNodeClient(conn)
	client := b.lvm
	b.stop = func() error {
		cancel()
		return errors.Join(<-served, conn.Close(), client.Close())
	}
}

func (b *bed) restart(t *testing.T) {
	t.Helper()
	must(t, b.stop())
	b.start(t)
}

// reboot leaves on the node what a reboot does: no mounts, no active volumes,
// and the files that were under the mounts.
func (b *bed) reboot(t *testing.T) {
	t.Helper()
	must(t, b.stop(), b.unmountAll())
	b.real.Admin(t, "vgchange", "-an", "vgA", "vgB")
	b.start(t)
}

func (b *bed) unmountAll() error {
	mounts, err := b.mounter.Mounts()
	for _, m := range slices.Backward(mounts) {
		if strings.HasPrefix(m.Path, b.kubeletDir+"/") {
			err = errors.Join(err, unix.Unmount(m.Path, 0))
		}
	}
	return err
}

func mountCap(fsType string, mode csi.VolumeCapability_AccessMode_Mode, flags ...string) *csi.VolumeCapability {
	return drivertest.MountCap(fsType, mode, flags...)
}

func blockCap(mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	return drivertest.BlockCap(mode)
}

// Clients and Kubelet implement drivertest.Service.
func (b *bed) Clients() (csi.ControllerClient, csi.NodeClient) { return b.controller, b.node }
func (b *bed) Kubelet() string                                 { return b.kubeletDir }

// volume is a volume on a bed.
type volume struct {
	*drivertest.Volume
	*bed
}

func (b *bed) create(t *testing.T, name string, sizeBytes int64, c *csi.VolumeCapability, class ...string) *volume {
	t.Helper()
	parameters := map[string]string{"pool": "pool-thick"}
	for _, pair := range class {
		key, value, _ := strings.Cut(pair, "=")
		parameters[key] = value
	}
	v, err := drivertest.CreateVolume(t.Context(), b, name, sizeBytes, c, parameters)
	must(t, err)
	return &volume{Volume: v, bed: b}
}

// devicePath is the volume's node.
func (v *volume) devicePath() string { return "/dev/" + v.Ref.String() }

// mounted returns the mount at path.
func (b *bed) mounted(t *testing.T, path string) (driver.Mount, bool) {
	t.Helper()
	mounts, err := b.mounter.Mounts()
	must(t, err)
	for _, m := range slices.Backward(mounts) {
		if m.Path == path {
			return m, true
		}
	}
	return driver.Mount{}, false
}

func (b *bed) wantMount(t *testing.T, path string, options ...string) {
	t.Helper()
	m, ok := b.mounted(t, path)
	if !ok {
		t.Errorf("nothing is mounted at %s", path)
	}
	for _, option := range options {
		if !slices.Contains(m.Options, option) && !slices.Contains(m.SuperOptions, option) {
			t.Errorf("mount at %s has options %v %v, want %s", path, m.Options, m.SuperOptions, option)
		}
	}
}

func (b *bed) wantNoMount(t *testing.T, path string) {
	t.Helper()
	if m, ok := b.mounted(t, path); ok {
		t.Errorf("still mounted: %+v", m)
	}
}

func (b *bed) statfs(t *testing.T, path string) driver.FilesystemUsage {
	t.Helper()
	usage, err := b.mounter.Statfs(path)
	must(t, err)
	return usage
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("step %d: %v", i+1, err)
		}
	}
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("code %v (%v), want %v", got, err, want)
	}
}

func writeFile(path, text string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s holds %q (%v), want %q", path, got, err, want)
	}
}
