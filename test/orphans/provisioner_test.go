package orphans

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/test/nodeproc"
)

// envProvisioner names a csi-provisioner, built from github.com/kubernetes-csi/external-provisioner/v6.
const envProvisioner = "CSI_PROVISIONER"

const className = "local"

// The real provisioner is killed right after claims were deleted in mid-creation.
func TestProvisionerDiesInMidCreation(t *testing.T) {
	program := os.Getenv(envProvisioner)
	if program == "" {
		t.Skip(envProvisioner + " names no csi-provisioner; TestLeakedAndRetained makes the same calls")
	}
	b := newBed(t, "--orphan-grace=10s")
	b.makeClass()
	var leaked []string
	made := time.Now()
	for round := range 5 {
		made = time.Now()
		if leaked = b.leak(program, fmt.Sprintf("round%d", round)); len(leaked) > 0 {
			break
		}
	}
	t.Logf("leaked %v", leaked)
	if len(leaked) == 0 {
		t.Fatal("no volume leaked")
	}
	b.await("every leaked volume is out of the figure", func() bool { return b.published() == b.total-int64(len(leaked))*32*mib })
	took := time.Since(made)
	t.Logf("out of the figure after %v", took.Round(time.Second))
	if took > 2*time.Minute {
		t.Errorf("out of the figure after %v", took)
	}
	for _, name := range leaked {
		b.await(name+" is deleted", func() bool { return !b.there(name) })
	}
	b.await("all is published again", func() bool { return b.published() == b.total })
}

// makeClass makes what kubelet and an administrator make.
func (b *bed) makeClass() {
	b.t.Helper()
	ctx, key := b.t.Context(), capacity.TopologyKey(driverName)
	_, err := b.Admin.CoreV1().Nodes().Patch(ctx, nodeproc.NodeName, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, nodeproc.NodeName), metav1.PatchOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	csiNode := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: nodeproc.NodeName}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
		Name: driverName, NodeID: nodeproc.NodeName, TopologyKeys: []string{key}, Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(10))},
	}}}}
	if _, err := b.Admin.StorageV1().CSINodes().Create(ctx, csiNode, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: className}, Provisioner: driverName, Parameters: map[string]string{"pool": "ssd"},
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	if _, err := b.Admin.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// leak lets the provisioner begin with four claims, deletes them and kills it. It
// returns the volumes that have no PersistentVolume then.
func (b *bed) leak(program, prefix string) []string {
	b.t.Helper()
	ctx := b.t.Context()
	log, err := os.OpenFile(filepath.Join(b.folder, "provisioner.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		b.t.Fatal(err)
	}
	defer log.Close()
	provisioner := exec.CommandContext(ctx, program, "--csi-address="+filepath.Join(b.folder, "csi.sock"), "--kubeconfig="+b.Kubeconfig,
		"--node-deployment", "--strict-topology", "--immediate-topology=false", "--v=5")
	provisioner.Env = append(os.Environ(), "NODE_NAME="+nodeproc.NodeName, "NAMESPACE=default")
	provisioner.Stdout, provisioner.Stderr = log, log
	if err := provisioner.Start(); err != nil {
		b.t.Fatal(err)
	}
	before := b.created()
	var claims, volumes []string
	for i := range 4 {
		claim := b.claim(fmt.Sprintf("%s-%d", prefix, i))
		claims, volumes = append(claims, claim.Name), append(volumes, "pvc-"+string(claim.UID))
	}
	b.await("the provisioner has begun", func() bool { return b.created() > before })
	for _, name := range claims {
		_, err := b.Admin.CoreV1().PersistentVolumeClaims("default").Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err == nil {
			err = b.Admin.CoreV1().PersistentVolumeClaims("default").Delete(ctx, name, metav1.DeleteOptions{})
		}
		if err != nil {
			b.t.Error(err)
		}
	}
	if err := provisioner.Process.Kill(); err != nil {
		b.t.Error(err)
	}
	_ = provisioner.Wait() // it was killed
	b.await("no call runs any more", func() bool { return b.gauge("csi_local_operations_running") == 0 })
	var leaked []string
	for _, name := range volumes {
		_, err := b.Admin.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && b.there(name) {
			leaked = append(leaked, name)
		}
	}
	return leaked
}

// claim makes one that the scheduler has given a node.
func (b *bed) claim(name string) *corev1.PersistentVolumeClaim {
	b.t.Helper()
	claim, err := b.Admin.CoreV1().PersistentVolumeClaims("default").Create(b.t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			"volume.kubernetes.io/selected-node": nodeproc.NodeName, "volume.kubernetes.io/storage-provisioner": driverName,
		}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new(className),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(32*mib, resource.BinarySI)}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return claim
}

// created counts the volumes that LVM has, by the process's own word, which is quick.
func (b *bed) created() float64 {
	return b.gauge("csi_local_pool_volumes") + b.gauge("csi_local_operations_running")
}

// gauge sums up the series of a metric.
func (b *bed) gauge(name string) float64 {
	b.t.Helper()
	families, err := b.Metrics(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	sum := 0.0
	for _, metric := range families[name].GetMetric() {
		sum += metric.GetGauge().GetValue()
	}
	return sum
}
