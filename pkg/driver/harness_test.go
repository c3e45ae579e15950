package driver

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/csi-local/csi-local/pkg/blockdev"
	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30

	testDriver = "test.csi.local"
	testNode   = "node-1"
)

// world is a machine with a thick pool ("thick", volume group vg-a, two disks)
// and a thin pool ("thin", vg-b/tp0). It outlives the drivers that are started on it.
type world struct {
	machine *lvmfake.Machine

	mu    sync.Mutex
	pools []poolconfig.Pool
}

// worldOptions say what differs from the usual world.
type worldOptions struct {
	// DiskBytes is the size of each of the four disks; 2 GiB if 0.
	DiskBytes int64
	// Devices gives volumes device files that keep their bytes.
	Devices bool
}

func newWorld(t testing.TB, o worldOptions) *world {
	t.Helper()
	if o.DiskBytes == 0 {
		o.DiskBytes = 2 * gib
	}
	dir := ""
	if o.Devices {
		dir = t.TempDir()
	}
	w := &world{machine: lvmfake.NewMachine(dir)}
	for _, name := range []string{"vg-a", "vg-b"} {
		_, err := w.machine.AddGroup(lvmfake.Group{Name: name, Disks: []lvmfake.Disk{{SizeBytes: o.DiskBytes}, {SizeBytes: o.DiskBytes}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	client := w.client(t)
	thinPool := lvm.Ref{VolumeGroup: "vg-b", Name: "tp0"}
	if _, err := client.CreateThinPool(context.Background(), lvm.ThinPoolRequest{Ref: thinPool, SizeBytes: o.DiskBytes}); err != nil {
		t.Fatal(err)
	}
	w.pools = []poolconfig.Pool{
		{
			Name: "thick", VolumeGroup: "vg-a", Type: capacity.PoolThick, OverprovisionRatio: 1,
			DefaultFilesystem: capacity.FilesystemExt4, Wipe: capacity.WipeZero, MaxInlineSizeBytes: gib,
		},
		{
			Name: "thin", VolumeGroup: "vg-b", Type: capacity.PoolThin, ThinPool: "tp0", OverprovisionRatio: 1,
			DataWatermarkPercent: 90, MetadataWatermarkPercent: 90,
			DefaultFilesystem: capacity.FilesystemExt4, Wipe: capacity.WipeZero, MaxInlineSizeBytes: gib,
		},
	}
	return w
}

// client is a new process' view of the world's LVM.
func (w *world) client(t testing.TB) *lvmfake.LVM {
	t.Helper()
	client, err := lvmfake.New(lvmfake.Options{
		Machine:      w.machine,
		VolumeGroups: []lvm.VolumeGroupSelector{{Name: "vg-a"}, {Name: "vg-b"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (w *world) currentPools() []poolconfig.Pool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.pools)
}

// setPool changes the configuration of the pool of that name.
func (w *world) setPool(name string, change func(*poolconfig.Pool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.pools {
		if w.pools[i].Name == name {
			change(&w.pools[i])
		}
	}
}

// noMounter stands in where nothing is mounted.
type noMounter struct {
	Mounter
	missing map[string][]string // programs, by file system
}

func (m noMounter) Mounts() ([]Mount, error) { return nil, nil }

func (m noMounter) MissingTools(fsType string) []string { return m.missing[fsType] }

// process is a driver that serves on a socket, and a connection to it.
type process struct {
	*Driver
	lvm        *lvmfake.LVM
	socket     string
	identity   csi.IdentityClient
	controller csi.ControllerClient
	node       csi.NodeClient
	stop       context.CancelFunc
	served     chan error
}

// start runs a driver until the test ends or stop is called.
func (w *world) start(t testing.TB) *process {
	t.Helper()
	return w.startWith(t, w.client(t))
}

func (w *world) startWith(t testing.TB, client *lvmfake.LVM) *process {
	t.Helper()
	return serve(t, w.driver(t, client), client)
}

// driver makes a driver that does not serve yet.
func (w *world) driver(t testing.TB, client *lvmfake.LVM) *Driver {
	t.Helper()
	d, err := New(Options{
		DriverName: testDriver, NodeName: testNode, Version: "v0.0.0-test",
		Volumes: client, Devices: client.Devices(blockdev.Device{RegularFiles: true}), Mounter: noMounter{}, Pools: w.currentPools,
		KubeletDir: "/var/lib/kubelet", MaxVolumes: 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func serve(t testing.TB, d *Driver, client *lvmfake.LVM) *process {
	t.Helper()
	p := &process{Driver: d, lvm: client, socket: filepath.Join(shortTempDir(t), "csi.sock"), served: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	listener, err := Listen(ctx, "unix://"+p.socket)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.served <- d.Serve(ctx, listener)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	conn, err := grpc.NewClient("unix://"+p.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	p.identity, p.controller, p.node = csi.NewIdentityClient(conn), csi.NewControllerClient(conn), csi.NewNodeClient(conn)
	return p
}

// shortTempDir has a path that fits a socket's address, whatever the test's name is.
func shortTempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "csi")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func blockCapability() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
}

func mountCapability(fsType string) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fsType}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
}

// createReq asks for a block volume of exactly requiredBytes or a bit more.
func createReq(name, pool string, requiredBytes int64) *csi.CreateVolumeRequest {
	return &csi.CreateVolumeRequest{
		Name:               name,
		VolumeCapabilities: []*csi.VolumeCapability{blockCapability()},
		CapacityRange:      &csi.CapacityRange{RequiredBytes: requiredBytes},
		Parameters:         map[string]string{capacity.ParamPool: pool},
	}
}

func mustCreate(t testing.TB, p *process, req *csi.CreateVolumeRequest) *csi.Volume {
	t.Helper()
	resp, err := p.controller.CreateVolume(t.Context(), req)
	if err != nil {
		t.Fatalf("CreateVolume %s: %v", req.GetName(), err)
	}
	return resp.GetVolume()
}

func mustDelete(t testing.TB, p *process, id string) {
	t.Helper()
	if _, err := p.controller.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id}); err != nil {
		t.Fatalf("DeleteVolume %s: %v", id, err)
	}
}

func wantCode(t testing.TB, what string, err error, want codes.Code) {
	t.Helper()
	if status.Code(err) != want {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// patience bounds waits for what must happen; only a failing test gets that far.
const patience = 30 * time.Second

// receive waits for a value, or for the channel to be closed.
func receive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("no %s after %v", what, patience)
		panic("not reached")
	}
}

// markUsed makes a volume look as after its first stage.
func markUsed(t testing.TB, p *process, id, fsType string) volume {
	t.Helper()
	ref, err := parseVolumeID(id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.lvm.Activate(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	add := []string{encodeTag(tagState, string(stateUsed))}
	if fsType != "" {
		add = append(add, encodeTag(tagFS, fsType))
	}
	if err := p.lvm.ChangeTags(t.Context(), ref, add, []string{encodeTag(tagState, string(stateNew))}); err != nil {
		t.Fatal(err)
	}
	v, err := p.lookup(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// picture is what an administrator sees of a volume group: volumes with their
// tags, and free extents.
type picture struct {
	FreeExtents int64
	Volumes     map[string][]string
}

// look reads the world anew, as vgs and lvs would.
func (w *world) look(t testing.TB) map[string]picture {
	t.Helper()
	state, err := w.client(t).State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]picture{}
	for _, group := range state.VolumeGroups {
		p := picture{FreeExtents: group.FreeExtents, Volumes: map[string][]string{}}
		for _, lv := range group.LogicalVolumes {
			p.Volumes[lv.Name] = slices.Sorted(slices.Values(lv.Tags))
		}
		out[group.Name] = p
	}
	return out
}
