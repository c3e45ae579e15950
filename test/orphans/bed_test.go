package orphans

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/orphans"
	"github.com/csi-local/csi-local/test/admin"
	"github.com/csi-local/csi-local/test/lvmcluster"
	"github.com/csi-local/csi-local/test/nodeproc"
	"github.com/csi-local/csi-local/test/testbed"
	"github.com/csi-local/csi-local/test/vm"
)

const (
	mib        = int64(1) << 20
	driverName = capacity.DefaultDriverName
	pools      = "pools:\n- {name: ssd, volumeGroup: vg0, type: thick}\n"
)

func TestMain(m *testing.M) {
	lvmcluster.Main(m, "orphans", vm.Options{
		Disks: []vm.Disk{{SizeBytes: 1 << 30}}, Env: []string{envProvisioner + "=" + os.Getenv(envProvisioner)},
	})
}

// patience bounds waits for what must happen; only a failing test gets that far.
const patience = 2 * time.Minute

// bed is a node with one volume group, as kubelet and provisioner see it.
type bed struct {
	*nodeproc.Node
	*lvmcluster.Cluster
	t      *testing.T
	folder string
	// total is what is published without orphans.
	total int64
}

// newBed starts the process with these flags and, else, short intervals.
func newBed(t *testing.T, flags ...string) *bed {
	t.Helper()
	b := &bed{Cluster: lvmcluster.Connect(t), t: t}
	b.makeNode()
	disk := strings.Fields(os.Getenv(vm.EnvDisks))[0]
	admin.Run(b.t, "vgcreate", "-qq", "-y", "-s", "4m", "vg0", disk)
	// Not t.TempDir, whose paths are longer than a socket's may be.
	var err error
	if b.folder, err = os.MkdirTemp("", "orphans"); err != nil {
		t.Fatal(err)
	}
	b.start(flags...)
	t.Cleanup(func() {
		b.stop()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		cleanUp := func(args ...string) {
			if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
				t.Errorf("%v: %v: %s", args, err, out)
			}
		}
		cleanUp("vgremove", "-qq", "-ff", "-y", "vg0")
		cleanUp("pvremove", "-qq", "-ff", "-y", disk)
		err := errors.Join(os.RemoveAll(b.folder), b.Admin.CoreV1().Nodes().Delete(ctx, nodeproc.NodeName, metav1.DeleteOptions{}))
		if err != nil {
			t.Error(err)
		}
	})
	b.await("the pool is published", func() bool { b.total = b.published(); return b.total > 0 })
	return b
}

func (b *bed) makeNode() {
	b.t.Helper()
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeproc.NodeName}}
	if _, err := b.Admin.CoreV1().Nodes().Create(b.t.Context(), object, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) start(flags ...string) {
	b.t.Helper()
	args := append([]string{
		"--kubeconfig=" + b.Kubeconfig, "--register=false",
		"--publish-interval=1s", "--publish-spread=0", "--publish-raise-delay=1s", "--publish-step-interval=1s", "--publish-step-percent=100",
		"--orphan-interval=3s", "--orphan-recheck=1s",
	}, flags...)
	var err error
	b.Node, err = nodeproc.Start(b.t.Context(), nodeproc.Options{Binary: b.Binary, Folder: b.folder, Pools: pools, Args: args})
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) stop() {
	if b.t.Failed() {
		text, err := os.ReadFile(b.LogFile())
		b.t.Logf("log of the node, %v:\n%s", err, text)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := b.Node.Stop(ctx); err != nil {
		b.t.Error(err)
	}
}

// refused runs csi-local orphans, which must fail and say why.
func (b *bed) refused(says string, args ...string) {
	b.t.Helper()
	out, err := exec.CommandContext(b.t.Context(), b.Binary, append([]string{"orphans"}, args...)...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), says) {
		b.t.Errorf("csi-local orphans %v: %v, %s; want %q", args, err, out, says)
	}
}

// list is csi-local orphans list, by kind.
func (b *bed) list() map[orphans.Kind][]orphans.Entry {
	b.t.Helper()
	var list struct{ Items []orphans.Entry }
	if err := json.Unmarshal([]byte(admin.Run(b.t, b.Binary, "orphans", "list", "-o", "json")), &list); err != nil {
		b.t.Fatal(err)
	}
	byKind := map[orphans.Kind][]orphans.Entry{}
	for _, e := range list.Items {
		byKind[e.Kind] = append(byKind[e.Kind], e)
	}
	return byKind
}

// awaitOrphans waits until these are the orphans, and their bytes are not published.
func (b *bed) awaitOrphans(kind orphans.Kind, want ...string) {
	b.t.Helper()
	b.await(fmt.Sprintf("the %s orphans are %v, and are not published", kind, want), func() bool {
		var names []string
		bytes := int64(0)
		for k, entries := range b.list() {
			for _, e := range entries {
				bytes += e.PoolBytes
				if k == kind {
					names = append(names, e.Name)
				}
			}
		}
		return slices.Equal(names, want) && b.published() == b.total-bytes
	})
}

// await looks again and again.
func (b *bed) await(what string, so func() bool) {
	b.t.Helper()
	testbed.Eventually(b.t, patience, what, func() string {
		if !so() {
			return "not yet"
		}
		return ""
	})
}

// during looks for a while whether it stays so.
func (b *bed) during(d time.Duration, what string, so func() bool) {
	b.t.Helper()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(d)
	defer end.Stop()
	for {
		if !so() {
			b.t.Fatalf("no longer: %s", what)
		}
		select {
		case <-end.C:
			return
		case <-tick.C:
		}
	}
}

// published is what stands on the Node for the pool; -1 if nothing does.
func (b *bed) published() int64 {
	b.t.Helper()
	node, err := b.Admin.CoreV1().Nodes().Get(b.t.Context(), nodeproc.NodeName, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	var figures map[string]string
	if text := node.Annotations[capacity.PoolsAnnotation(driverName)]; text == "" || json.Unmarshal([]byte(text), &figures) != nil {
		return -1
	}
	bytes, err := strconv.ParseInt(figures["ssd"], 10, 64)
	if err != nil {
		return -1
	}
	return bytes
}

// there tells which logical volumes exist, by LVM's own word.
func (b *bed) there(names ...string) bool {
	b.t.Helper()
	found := strings.Fields(admin.Run(b.t, "lvs", "--noheadings", "-o", "lv_name", "vg0"))
	for _, name := range names {
		if !slices.Contains(found, name) {
			return false
		}
	}
	return true
}

// events counts those of the Node, by reason. Equal ones are one object with a count.
func (b *bed) events() map[string]int32 {
	b.t.Helper()
	list, err := b.Admin.CoreV1().Events(metav1.NamespaceDefault).List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	counts := map[string]int32{}
	for i := range list.Items {
		counts[list.Items[i].Reason] += max(list.Items[i].Count, 1)
	}
	return counts
}

// create is what the provisioner calls.
func (b *bed) create(name, fsType string) nodeproc.Volume {
	b.t.Helper()
	v, err := b.Create(b.t.Context(), nodeproc.Spec{Name: name, SizeBytes: 32 * mib, FSType: fsType, Parameters: map[string]string{"pool": "ssd"}})
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// provision is create, and the PersistentVolume that the provisioner makes then.
func (b *bed) provision(name, fsType string) nodeproc.Volume {
	b.t.Helper()
	v := b.create(name, fsType)
	b.makePersistentVolume(v)
	return v
}

func (b *bed) makePersistentVolume(v nodeproc.Volume) {
	b.t.Helper()
	object := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: v.Name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(v.CapacityBytes, resource.BinarySI)},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: driverName, VolumeHandle: v.ID, VolumeAttributes: v.Context, FSType: v.FSType,
			}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: capacity.TopologyKey(driverName), Operator: corev1.NodeSelectorOpIn, Values: []string{nodeproc.NodeName},
				}},
			}}}},
		},
	}
	if _, err := b.Admin.CoreV1().PersistentVolumes().Create(b.t.Context(), object, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// terminate deletes the object, whose protection keeps it there.
func (b *bed) terminate(names ...string) {
	b.t.Helper()
	for _, name := range names {
		if err := b.Admin.CoreV1().PersistentVolumes().Delete(b.t.Context(), name, metav1.DeleteOptions{}); err != nil {
			b.t.Fatal(err)
		}
	}
}

// unprotect is the force of a forced deletion.
func (b *bed) unprotect(names ...string) {
	b.t.Helper()
	for _, name := range names {
		_, err := b.Admin.CoreV1().PersistentVolumes().Patch(b.t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

// inPod is kubelet's way to a pod and back, with a look at the file system in it.
func (b *bed) inPod(v nodeproc.Volume, pod string, look func(path string)) {
	b.t.Helper()
	ctx := b.t.Context()
	if err := b.Stage(ctx, v); err != nil {
		b.t.Fatal(err)
	}
	path, err := b.Publish(ctx, v, pod, false)
	if err != nil {
		b.t.Fatal(err)
	}
	look(path)
	if err := errors.Join(b.Unpublish(ctx, v, pod), b.Unstage(ctx, v)); err != nil {
		b.t.Fatal(err)
	}
}
