package storm

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// provisionerWorkers are fewer than the real one's 100 threads: all but one of
// them would wait for the driver.
const provisionerWorkers = 10

// provisioner does for one node what csi-provisioner v6 with --node-deployment
// does: it waits for the claim to name its node and for the volume controller to
// name the driver, calls CreateVolume, and either saves the PersistentVolume or,
// on ResourceExhausted, takes the node's name out of the claim. It sends no events.
type provisioner struct {
	node      string
	client    kubernetes.Interface
	pool      *Pool
	claims    cache.Store
	queue     workqueue.TypedRateLimitingInterface[string]
	publisher *publisher // nil without in-tree tracking
	latency   time.Duration

	mu     sync.Mutex
	random *rand.Rand
	saved  map[string]bool // volumes whose PersistentVolume was written
}

func newProvisioner(node string, client kubernetes.Interface, pool *Pool, claims cache.Store, o Options, index uint64) *provisioner {
	// --retry-interval-start and --retry-interval-max.
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, 5*time.Minute)
	return &provisioner{node: node, client: client, pool: pool, claims: claims, queue: workqueue.NewTypedRateLimitingQueue(limiter),
		latency: o.CreateLatency, random: rand.New(rand.NewPCG(o.Seed, index)), saved: map[string]bool{}}
}

// concerned tells whether the claim is for this node's provisioner to do.
func (p *provisioner) concerned(claim *v1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName == "" && claim.Annotations[storagehelpers.AnnSelectedNode] == p.node &&
		claim.Annotations[storagehelpers.AnnStorageProvisioner] == driverName
}

func (p *provisioner) run(ctx context.Context) {
	var workers sync.WaitGroup
	for range provisionerWorkers {
		workers.Go(func() { p.work(ctx) })
	}
	<-ctx.Done()
	p.queue.ShutDown()
	workers.Wait()
}

func (p *provisioner) work(ctx context.Context) {
	for {
		key, down := p.queue.Get()
		if down {
			return
		}
		if err := p.provision(ctx, key); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "A claim is tried again", "claim", key, "node", p.node)
			p.queue.AddRateLimited(key)
		} else {
			p.queue.Forget(key)
		}
		p.queue.Done(key)
	}
}

func (p *provisioner) provision(ctx context.Context, key string) error {
	object, there, err := p.claims.GetByKey(key)
	if err != nil || !there {
		return err
	}
	claim, ok := object.(*v1.PersistentVolumeClaim)
	if !ok || !p.concerned(claim) {
		return nil
	}
	volume := volumeOf(claim, p.node)
	if p.isSaved(volume.Name) {
		return nil
	}
	bytes := claim.Spec.Resources.Requests[v1.ResourceStorage]
	made, err := p.pool.create(ctx, volume.Name, bytes.Value(), p.takes())
	if err != nil {
		return err
	}
	if !made {
		p.publisher.refreshClass(*claim.Spec.StorageClassName)
		return p.reschedule(ctx, claim)
	}
	p.publisher.refresh()
	if _, err := p.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("saving volume %s: %w", volume.Name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.saved[volume.Name] = true
	return nil
}

func (p *provisioner) isSaved(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.saved[name]
}

// takes is how long the next volume takes: the mean, half more or less.
func (p *provisioner) takes() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration((0.5 + p.random.Float64()) * float64(p.latency))
}

// reschedule has the scheduler look for another node.
func (p *provisioner) reschedule(ctx context.Context, claim *v1.PersistentVolumeClaim) error {
	claims := p.client.CoreV1().PersistentVolumeClaims(claim.Namespace)
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		fresh, err := claims.Get(ctx, claim.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if _, there := fresh.Annotations[storagehelpers.AnnSelectedNode]; !there {
			return nil
		}
		delete(fresh.Annotations, storagehelpers.AnnSelectedNode)
		if fresh, err = claims.Update(ctx, fresh, metav1.UpdateOptions{}); err != nil {
			return err
		}
		// As the real one does, so that the old claim is not tried once more.
		return p.claims.Update(fresh)
	})
}

func volumeName(claim *v1.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }

func volumeOf(claim *v1.PersistentVolumeClaim, node string) *v1.PersistentVolume {
	mode := v1.PersistentVolumeFilesystem
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volumeName(claim),
			Annotations: map[string]string{storagehelpers.AnnDynamicallyProvisioned: driverName},
			Finalizers:  []string{"external-provisioner.volume.kubernetes.io/finalizer"}},
		Spec: v1.PersistentVolumeSpec{
			Capacity:    v1.ResourceList{v1.ResourceStorage: claim.Spec.Resources.Requests[v1.ResourceStorage]},
			AccessModes: claim.Spec.AccessModes, StorageClassName: *claim.Spec.StorageClassName, VolumeMode: &mode,
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimDelete,
			ClaimRef:                      &v1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driverName, FSType: "ext4",
				VolumeHandle: "vg/" + string(claim.UID), VolumeAttributes: map[string]string{capacity.ParamPool: poolName, capacity.ParamLayout: "linear"}}},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{
				Key: capacity.TopologyKey(driverName), Operator: v1.NodeSelectorOpIn, Values: []string{node}}}}}}},
		},
	}
}
