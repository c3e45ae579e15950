package capacity

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/test/admin"
	"github.com/csi-local/csi-local/test/lvmcluster"
	"github.com/csi-local/csi-local/test/nodeproc"
	"github.com/csi-local/csi-local/test/vm"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30

	driverName = capacity.DefaultDriverName
)

// Flags of the test binary: go test ./test/capacity -volumes 1000.
const (
	flagVolumes = "volumes"
	flagResults = "results"
	flagSeed    = "seed"
)

func TestMain(m *testing.M) {
	flag.Int(flagVolumes, 100, "how many volumes are created and deleted while the writes are counted")
	flag.Int64(flagSeed, 0, "seed of what is random; another one each time if 0")
	results := flag.String(flagResults, "", "folder for the figures; none are written if empty")
	flag.Parse()
	options := vm.Options{Disks: []vm.Disk{{SizeBytes: 2 * gib}, {SizeBytes: gib}, {SizeBytes: gib}, {SizeBytes: gib}}}
	if *results != "" {
		options.Shares = []vm.Share{{Host: *results, Guest: *results}}
	}
	lvmcluster.Main(m, "capacity", options)
}

// flagValue is what the flag of that name was set to.
func flagValue[T any](t *testing.T, name string) T {
	t.Helper()
	getter, ok := flag.Lookup(name).Value.(flag.Getter)
	if !ok {
		t.Fatalf("flag %s cannot be read", name)
	}
	value, ok := getter.Get().(T)
	if !ok {
		t.Fatalf("flag %s is not a %T", name, value)
	}
	return value
}

func disks() []string { return strings.Fields(os.Getenv(vm.EnvDisks)) }

// Intervals of the reporter, short enough for a test.
const (
	refreshInterval = time.Second
	publishInterval = 2 * time.Second
	publishSpread   = time.Second
	raiseDelay      = time.Second
	errorValidity   = 3 * time.Second
)

func reporterFlags(cluster *lvmcluster.Cluster) []string {
	return []string{
		"--kubeconfig=" + cluster.Kubeconfig,
		// The volumes of these tests have no PersistentVolumes.
		"--orphan-policy=ignore",
		fmt.Sprint("--lvm-refresh-interval=", refreshInterval),
		fmt.Sprint("--publish-interval=", publishInterval), fmt.Sprint("--publish-spread=", publishSpread),
		fmt.Sprint("--publish-raise-delay=", raiseDelay), fmt.Sprint("--publish-step-interval=", raiseDelay), "--publish-step-percent=100",
		fmt.Sprint("--publish-error-validity=", errorValidity), fmt.Sprint("--publish-validity=", 10*refreshInterval),
	}
}

// bed is a node that publishes, as kubelet has registered it.
type bed struct {
	*nodeproc.Node
	*lvmcluster.Cluster
	t *testing.T
}

// newBed starts the process with that pools file.
func newBed(t *testing.T, pools string) *bed {
	t.Helper()
	cluster := lvmcluster.Connect(t)
	ctx := t.Context()
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeproc.NodeName}}
	if _, err := cluster.Admin.CoreV1().Nodes().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// Not t.TempDir, whose paths are longer than a socket's may be.
	folder, err := os.MkdirTemp("", "capacity")
	if err != nil {
		t.Fatal(err)
	}
	node, err := nodeproc.Start(ctx, nodeproc.Options{Binary: cluster.Binary, Folder: folder, Pools: pools, Args: reporterFlags(cluster)})
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{Node: node, Cluster: cluster, t: t}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if t.Failed() {
			text, err := os.ReadFile(node.LogFile())
			t.Logf("log of the node, %v:\n%s", err, text)
		}
		err := errors.Join(node.Stop(ctx), os.RemoveAll(folder),
			cluster.Admin.CoreV1().Nodes().Delete(ctx, nodeproc.NodeName, metav1.DeleteOptions{}),
			cluster.Admin.StorageV1().CSINodes().Delete(ctx, nodeproc.NodeName, metav1.DeleteOptions{}))
		if err != nil {
			t.Error(err)
		}
	})
	b.register()
	return b
}

// register does what kubelet does with the answer of NodeGetInfo.
func (b *bed) register() {
	b.t.Helper()
	object := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: nodeproc.NodeName}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
		Name: driverName, NodeID: nodeproc.NodeName, Allocatable: &storagev1.VolumeNodeResources{Count: new(b.slots())},
	}}}}
	if _, err := b.Admin.StorageV1().CSINodes().Create(b.t.Context(), object, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// slots is what NodeGetInfo answers.
func (b *bed) slots() int32 {
	b.t.Helper()
	info, err := b.Node.Node.NodeGetInfo(b.t.Context(), &csi.NodeGetInfoRequest{})
	if err != nil {
		b.t.Fatal(err)
	}
	return int32(info.GetMaxVolumesPerNode())
}

// create makes a raw block volume.
func (b *bed) create(pool, name string, sizeBytes int64) nodeproc.Volume {
	b.t.Helper()
	v, err := b.Create(b.t.Context(), nodeproc.Spec{Name: name, SizeBytes: sizeBytes, Parameters: map[string]string{"pool": pool}})
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// addGroup makes a volume group of blank devices, and removes it with the test.
func addGroup(t *testing.T, name string, devices ...string) {
	t.Helper()
	for _, device := range devices {
		// A pool gets blank disks: what others left on them is not the driver's to know.
		admin.Run(t, "blkdiscard", "-f", device)
	}
	admin.Run(t, append([]string{"vgcreate", "-qq", "-y", "-s", "1m", name}, devices...)...)
	t.Cleanup(func() {
		admin.CleanUp(t, "vgremove", "-qq", "-ff", "-y", name)
		admin.CleanUp(t, append([]string{"pvremove", "-qq", "-ff", "-y"}, devices...)...)
	})
}

// device is the node of a logical volume.
func device(group, name string) string { return filepath.Join("/dev", group, name) }
