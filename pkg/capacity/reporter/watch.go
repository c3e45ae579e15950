package reporter

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Watch is made for Options.Watch: it watches this node's two objects and no
// others, by a field selector.
func (c Client) Watch(ctx context.Context, observe func(Kind, Object)) {
	var running sync.WaitGroup
	nodes, csiNodes := c.Kubernetes.CoreV1().Nodes(), c.Kubernetes.StorageV1().CSINodes()
	running.Go(func() {
		c.watchOne(ctx, &v1.Node{}, &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return nodes.List(ctx, c.only(o))
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return nodes.Watch(ctx, c.only(o))
			},
		}, func(object any) {
			if node, ok := object.(*v1.Node); ok && node.Name == c.NodeName {
				observe(KindNode, nodeObject(node))
			}
		}, func() { observe(KindNode, Object{}) })
	})
	running.Go(func() {
		c.watchOne(ctx, &storagev1.CSINode{}, &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return csiNodes.List(ctx, c.only(o))
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return csiNodes.Watch(ctx, c.only(o))
			},
		}, func(object any) {
			if csiNode, ok := object.(*storagev1.CSINode); ok && csiNode.Name == c.NodeName {
				observe(KindCSINode, c.csiNodeObject(csiNode))
			}
		}, func() { observe(KindCSINode, Object{}) })
	})
	running.Wait()
}

func (c Client) only(o metav1.ListOptions) metav1.ListOptions {
	o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, c.NodeName).String()
	return o
}

// watchOne runs until ctx ends; the informer lists again, with a back-off of its own,
// whenever the watch breaks.
func (c Client) watchOne(ctx context.Context, example runtime.Object, lw *cache.ListWatch, seen func(any), gone func()) {
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		// Tells the informer whether this client can stream lists.
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(lw, c.Kubernetes),
		ObjectType:    example,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    seen,
			UpdateFunc: func(_, object any) { seen(object) },
			// Only one object is watched, so whatever form the event has, it was that one.
			DeleteFunc: func(any) { gone() },
		},
	})
	controller.RunWithContext(ctx)
}
