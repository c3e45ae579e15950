package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

const (
	// workers look at that many objects of a kind at once.
	workers = 4
	// What failed is tried again after retryBase, doubling to retryMax; each
	// object for itself, so that one that fails for ever holds up no other.
	retryBase, retryMax = time.Second, 5 * time.Minute
)

type queue = workqueue.TypedRateLimitingInterface[string]

func newQueue(name string) queue {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryBase, retryMax),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: name})
}

// Run watches the cluster and does the controller's work until ctx ends. synced
// is called once when the caches are filled and work begins. No two processes
// should do this at the same time, see [Election]; should it happen, the
// conditions of the writes keep one from undoing what the other has seen.
func Run(ctx context.Context, client Client, o Options, synced func()) error {
	volumeQueue, claimQueue := newQueue("volume"), newQueue("claim")
	c, err := newController(o, client, client, volumeQueue.Add, claimQueue.Add)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watched, err := c.watch(client)
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel() // before waiting, whatever the reason to return
	for _, informer := range watched.informers {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	if !cache.WaitForCacheSync(ctx.Done(), watched.synced...) {
		return nil // ctx has ended
	}
	stopCounting, err := c.metrics.watchLosses(c.countLosses)
	if err != nil {
		return err
	}
	defer stopCounting()
	synced()
	klog.FromContext(ctx).Info("Looking after lost nodes and hopeless claims", "driver", c.driverName, "delay", c.settings.LostNodeDelay,
		"maxLostNodesPercent", c.settings.MaxLostNodesPercent, "dryRun", c.settings.DryRun)
	for range workers {
		running.Go(func() { c.work(ctx, "volume", volumeQueue, c.reconcileVolume) })
		running.Go(func() { c.work(ctx, "claim", claimQueue, c.reconcileClaim) })
	}
	<-ctx.Done()
	volumeQueue.ShutDown()
	claimQueue.ShutDown()
	return nil
}

// watched is what is watched, and what tells that its handlers have seen all.
type watched struct {
	informers []cache.SharedIndexInformer
	synced    []cache.InformerSynced
}

// watch makes the informers and fills in the caches.
func (c *Controller) watch(client Client) (watched, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(client.Kubernetes, 0, informers.WithTransform(trim))
	nodes := metadatainformer.NewFilteredMetadataInformer(client.Metadata, nodesResource(), metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	volumes := factory.Core().V1().PersistentVolumes().Informer()
	claims := factory.Core().V1().PersistentVolumeClaims().Informer()
	classes := factory.Storage().V1().StorageClasses().Informer()
	problems := []error{nodes.SetTransform(trim), volumes.AddIndexers(c.volumeIndexers()), claims.AddIndexers(claimIndexers())}
	c.volumes, c.claims, c.classes = volumes.GetIndexer(), claims.GetIndexer(), classes.GetIndexer()
	w := watched{informers: []cache.SharedIndexInformer{nodes, volumes, claims, classes}}
	for i, h := range []cache.ResourceEventHandler{handler[metav1.PartialObjectMetadata](c.onNode), handler[v1.PersistentVolume](c.onVolume),
		handler[v1.PersistentVolumeClaim](c.onClaim), handler[storagev1.StorageClass](c.onClass)} {
		registration, err := w.informers[i].AddEventHandler(h)
		problems = append(problems, err)
		if err == nil {
			w.synced = append(w.synced, registration.HasSynced)
		}
	}
	if err := errors.Join(problems...); err != nil {
		return watched{}, fmt.Errorf("watching the cluster: %w", err)
	}
	return w, nil
}

// trim drops what takes memory and is never read.
func trim(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

// work looks at the queue's objects until it is shut down.
func (c *Controller) work(ctx context.Context, kind string, q queue, reconcile func(context.Context, string) (time.Duration, error)) {
	for {
		key, ended := q.Get()
		if ended {
			return
		}
		start := c.clock.Now()
		again, err := reconcile(ctx, key)
		c.metrics.reconciled(kind, err, c.clock.Since(start))
		switch {
		case apierrors.IsConflict(err):
			// Somebody else was quicker, as it happens all the time.
			klog.FromContext(ctx).V(4).Info("It has changed meanwhile", "kind", kind, "key", key)
			q.AddRateLimited(key)
		case err != nil && ctx.Err() == nil:
			klog.FromContext(ctx).Error(err, "It will be tried again", "kind", kind, "key", key, "failures", q.NumRequeues(key)+1)
			q.AddRateLimited(key)
		case again > 0:
			q.Forget(key)
			q.AddAfter(key, again)
		default:
			q.Forget(key)
		}
		q.Done(key)
	}
}
