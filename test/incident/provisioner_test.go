package incident

import (
	"context"
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

// provisioner makes volumes as the one of a node does, and binds them as the
// controller of PersistentVolumes does. It has a pool of so many bytes, and
// refuses what does not fit: then the scheduler has promised too much.
type provisioner struct {
	client        kubernetes.Interface
	capacityBytes int64
	queue         workqueue.TypedRateLimitingInterface[cache.ObjectName]

	mu        sync.Mutex
	allocated map[string]int64
	mostBytes int64
	refused   []string
}

func startProvisioner(t *testing.T, client kubernetes.Interface, capacityBytes int64) *provisioner {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &provisioner{client: client, capacityBytes: capacityBytes, allocated: map[string]int64{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())}
	factory := informers.NewSharedInformerFactory(client, 0)
	add := func(object any) {
		if claim, ok := object.(*v1.PersistentVolumeClaim); ok {
			p.queue.Add(cache.MetaObjectToName(claim))
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, object any) { add(object) }}
	if _, err := factory.Core().V1().PersistentVolumeClaims().Informer().AddEventHandler(handler); err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	var work sync.WaitGroup
	work.Go(func() { p.run(ctx) })
	t.Cleanup(func() {
		cancel()
		p.queue.ShutDown()
		work.Wait()
		factory.Shutdown()
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
	volume := volumeOf(claim, node)
	if !p.allocate(volume.Name, volumeSize(volume)) {
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

func volumeOf(claim *v1.PersistentVolumeClaim, node string) *v1.PersistentVolume {
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

func (p *provisioner) allocate(name string, bytes int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.allocated[name]; ok {
		return true // asked for again
	}
	used := bytes
	for _, b := range p.allocated {
		used += b
	}
	if used > p.capacityBytes {
		p.refused = append(p.refused, name)
		return false
	}
	p.allocated[name] = bytes
	p.mostBytes = max(p.mostBytes, used)
	return true
}

func (p *provisioner) free(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.allocated, name)
}

func (p *provisioner) refusals() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.refused)
}

func (p *provisioner) most() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mostBytes
}

// volumeNames are those of the volumes that take bytes.
func (p *provisioner) volumeNames() (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.allocated {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func quantity(bytes int64) resource.Quantity { return *resource.NewQuantity(bytes, resource.BinarySI) }
