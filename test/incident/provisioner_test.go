package incident

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// provisioner makes volumes as those of the nodes do, and binds them as the
// controller of PersistentVolumes does.
type provisioner struct {
	client kubernetes.Interface
	queue  workqueue.TypedRateLimitingInterface[cache.ObjectName]

	mu    sync.Mutex
	disks map[string]*disk // by node
}

// disk is a node's pool. It refuses what does not fit: then the scheduler has
// promised too much.
type disk struct {
	pool          string
	capacityBytes int64
	allocated     map[string]int64
	mostBytes     int64
	refused       []string
}

// workers is how many volumes are made at the same time.
const workers = 4

func startProvisioner(t *testing.T, client kubernetes.Interface, factory informers.SharedInformerFactory) *provisioner {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &provisioner{client: client, disks: map[string]*disk{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())}
	add := func(object any) {
		if claim, ok := object.(*v1.PersistentVolumeClaim); ok {
			p.queue.Add(cache.MetaObjectToName(claim))
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, object any) { add(object) }}
	if _, err := factory.Core().V1().PersistentVolumeClaims().Informer().AddEventHandler(handler); err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	for range workers {
		work.Go(func() { p.run(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		p.queue.ShutDown()
		work.Wait()
	})
	return p
}

func (p *provisioner) run(ctx context.Context) {
	for {
		name, down := p.queue.Get()
		if down {
			return
		}
		if err := p.provision(ctx, name); err != nil {
			p.queue.AddRateLimited(name)
		} else {
			p.queue.Forget(name)
		}
		p.queue.Done(name)
	}
}

func (p *provisioner) provision(ctx context.Context, name cache.ObjectName) error {
	claims := p.client.CoreV1().PersistentVolumeClaims(name.Namespace)
	claim, err := claims.Get(ctx, name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	node := claim.Annotations[storagehelpers.AnnSelectedNode]
	if node == "" || claim.Status.Phase == v1.ClaimBound || claim.DeletionTimestamp != nil {
		return nil
	}
	volume := volumeOf(claim, node, p.disk(node).pool)
	if !p.allocate(node, volume) {
		// As the real one does on ResourceExhausted.
		delete(claim.Annotations, storagehelpers.AnnSelectedNode)
		_, err = claims.Update(ctx, claim, metav1.UpdateOptions{})
		return err
	}
	created, err := p.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		created, err = p.client.CoreV1().PersistentVolumes().Get(ctx, volume.Name, metav1.GetOptions{})
	}
	if err != nil {
		return err
	}
	created.Status.Phase = v1.VolumeBound
	if _, err := p.client.CoreV1().PersistentVolumes().UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
		return err
	}
	claim.Spec.VolumeName = volume.Name
	claim.Annotations[storagehelpers.AnnBindCompleted] = "yes"
	if claim, err = claims.Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
		return err
	}
	claim.Status.Phase, claim.Status.Capacity, claim.Status.AccessModes = v1.ClaimBound, volume.Spec.Capacity, claim.Spec.AccessModes
	_, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return err
}

func volumeOf(claim *v1.PersistentVolumeClaim, node, pool string) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID), Annotations: map[string]string{storagehelpers.AnnDynamicallyProvisioned: capacity.DefaultDriverName}},
		Spec: v1.PersistentVolumeSpec{
			Capacity:    v1.ResourceList{v1.ResourceStorage: claim.Spec.Resources.Requests[v1.ResourceStorage]},
			AccessModes: claim.Spec.AccessModes, StorageClassName: *claim.Spec.StorageClassName, PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimDelete,
			ClaimRef: &v1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: capacity.DefaultDriverName,
				VolumeHandle: "vg/" + string(claim.UID), VolumeAttributes: map[string]string{capacity.ParamPool: pool, capacity.ParamLayout: "linear"}}},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{
				Key: capacity.TopologyKey(capacity.DefaultDriverName), Operator: v1.NodeSelectorOpIn, Values: []string{node}}}}}}},
		},
	}
}

func volumeSize(v *v1.PersistentVolume) int64 {
	size := v.Spec.Capacity[v1.ResourceStorage]
	return size.Value()
}

// addDisk gives a node its pool.
func (p *provisioner) addDisk(node, pool string, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.disks[node] = &disk{pool: pool, capacityBytes: bytes, allocated: map[string]int64{}}
}

func (p *provisioner) disk(node string) *disk {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.disks[node]
}

func (p *provisioner) allocate(node string, volume *v1.PersistentVolume) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	d, bytes := p.disks[node], volumeSize(volume)
	if _, ok := d.allocated[volume.Name]; ok {
		return true // asked for again
	}
	used := bytes
	for _, b := range d.allocated {
		used += b
	}
	if used > d.capacityBytes {
		d.refused = append(d.refused, volume.Name)
		return false
	}
	d.allocated[volume.Name] = bytes
	d.mostBytes = max(d.mostBytes, used)
	return true
}

func (p *provisioner) free(node, volume string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.disks[node].allocated, volume)
}

// outcome is the most bytes that were used on the node, and the volumes for which
// there was no room.
func (p *provisioner) outcome(node string) (mostBytes int64, refused []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.disks[node].mostBytes, slices.Clone(p.disks[node].refused)
}

// volumeNames are those of the volumes that take bytes of the node.
func (p *provisioner) volumeNames(node string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.disks[node].allocated))
}

func quantity(bytes int64) resource.Quantity { return *resource.NewQuantity(bytes, resource.BinarySI) }
