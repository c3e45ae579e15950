package schedplugin

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// feed registers the ledger's handlers. They say which object to look at, by
// name; so a tombstone that has lost its object is as good as any.
func (b *driverBooks) feed(ctx context.Context, f informers.SharedInformerFactory, w *waiting) error {
	l, core, storage := b.ledger, f.Core().V1(), f.Storage().V1()
	syncNode := func(_, name string) error { return l.SyncNode(name) }
	feeds := []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{core.Nodes().Informer(), byName(ctx, syncNode)},
		{storage.CSINodes().Informer(), byName(ctx, syncNode)},
		{core.PersistentVolumes().Informer(), byName(ctx, func(_, name string) error { return l.SyncVolume(name) })},
		{core.PersistentVolumeClaims().Informer(), byName(ctx, l.SyncClaim)},
		{storage.StorageClasses().Informer(), byName(ctx, func(_, name string) error { return l.SyncClass(name) })},
		{core.Pods().Informer(), podHandler{ResourceEventHandler: byName(ctx, l.SyncPod), driver: l.driver, waiting: w}},
	}
	for _, one := range feeds {
		registration, err := one.informer.AddEventHandler(one.handler)
		if err != nil {
			return err
		}
		b.feeds = append(b.feeds, registration)
	}
	return nil
}

// byName calls sync with the name of each event's object.
func byName(ctx context.Context, sync func(namespace, name string) error) cache.ResourceEventHandler {
	log := klog.LoggerWithName(klog.FromContext(ctx), Name)
	handle := func(object any) {
		namespace, name, err := nameOf(object)
		if err == nil {
			err = sync(namespace, name)
		}
		if err != nil {
			log.Error(err, "An event could not be booked", "objectType", fmt.Sprintf("%T", object))
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: handle, UpdateFunc: func(_, object any) { handle(object) }, DeleteFunc: handle}
}

func nameOf(object any) (namespace, name string, err error) {
	k, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
	if err != nil {
		return "", "", err
	}
	return cache.SplitMetaNamespaceKey(k)
}

// podHandler passes on the events of pods with inline volumes of the driver
// only; there are many others.
type podHandler struct {
	cache.ResourceEventHandler
	driver  string
	waiting *waiting
}

func (h podHandler) OnAdd(object any, initial bool) {
	if h.concerned(object) {
		h.ResourceEventHandler.OnAdd(object, initial)
	}
}

func (h podHandler) OnUpdate(before, object any) {
	if h.concerned(object) {
		h.ResourceEventHandler.OnUpdate(before, object)
	}
}

func (h podHandler) OnDelete(object any) {
	if pod, ok := object.(*v1.Pod); ok {
		h.waiting.forget(pod.UID)
	}
	if h.concerned(object) {
		h.ResourceEventHandler.OnDelete(object)
	}
}

// concerned is also true of what is no pod: a tombstone's object may be stale
// or missing.
func (h podHandler) concerned(object any) bool {
	pod, ok := object.(*v1.Pod)
	return !ok || hasInline(h.driver, pod)
}
