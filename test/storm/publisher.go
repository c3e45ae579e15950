package storm

import (
	"context"
	"fmt"
	"sync"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// publisher keeps one node's CSIStorageCapacity objects as csi-provisioner with
// --node-deployment and --enable-capacity does: one for each class, looked at
// after each CreateVolume and once in a while, written by one thread with a limit
// on requests of its own. It knows the version that it has written at once, where
// the real one waits for its informer, and so is a little better.
//
// A nil publisher does nothing.
type publisher struct {
	node   string
	client kubernetes.Interface
	pool   *Pool
	queue  workqueue.TypedRateLimitingInterface[string] // names of classes

	mu      sync.Mutex
	objects map[string]*storagev1.CSIStorageCapacity // by class
}

func newPublisher(node string, client kubernetes.Interface, pool *Pool) *publisher {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, 5*time.Minute)
	return &publisher{node: node, client: client, pool: pool, queue: workqueue.NewTypedRateLimitingQueue(limiter),
		objects: map[string]*storagev1.CSIStorageCapacity{}}
}

// refresh has the objects of all classes looked at.
func (p *publisher) refresh() {
	for _, class := range classNames() {
		p.refreshClass(class)
	}
}

func (p *publisher) refreshClass(class string) {
	if p != nil {
		p.queue.Add(class)
	}
}

func (p *publisher) run(ctx context.Context) {
	var work sync.WaitGroup
	work.Go(func() { p.work(ctx) })
	poll := time.NewTicker(capacityPoll)
	defer poll.Stop()
	p.refresh()
	for {
		select {
		case <-poll.C:
			p.refresh()
		case <-ctx.Done():
			p.queue.ShutDown()
			work.Wait()
			return
		}
	}
}

func (p *publisher) work(ctx context.Context) {
	for {
		class, down := p.queue.Get()
		if down {
			return
		}
		if err := p.sync(ctx, class); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "A capacity object is tried again", "class", class, "node", p.node)
			p.queue.AddRateLimited(class)
		} else {
			p.queue.Forget(class)
		}
		p.queue.Done(class)
	}
}

func (p *publisher) sync(ctx context.Context, class string) error {
	p.mu.Lock()
	object := p.objects[class]
	p.mu.Unlock()
	free := quantity(p.pool.freeBytes())
	objects := p.client.StorageV1().CSIStorageCapacities(metav1.NamespaceSystem)
	var err error
	switch {
	case object == nil:
		object, err = objects.Create(ctx, &storagev1.CSIStorageCapacity{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "csisc-", Labels: map[string]string{
				"csi.storage.k8s.io/drivername": driverName, "csi.storage.k8s.io/managed-by": "external-provisioner-" + p.node}},
			StorageClassName: class, Capacity: &free, MaximumVolumeSize: &free,
			NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{capacity.TopologyKey(driverName): p.node}},
		}, metav1.CreateOptions{})
	case object.Capacity.Cmp(free) == 0:
		return nil
	default:
		object = object.DeepCopy()
		object.Capacity, object.MaximumVolumeSize = &free, &free
		object, err = objects.Update(ctx, object, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("capacity of class %s on node %s: %w", class, p.node, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.objects[class] = object
	return nil
}

// published tells whether all objects are there.
func (p *publisher) published() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.objects) == classes
}
