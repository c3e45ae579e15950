package controller

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// handler makes an event handler. now is nil for an object that is gone, and
// before for one that is new. Of a deletion that the watch has missed the cache
// may know no more than the key: then before has nothing but its names.
func handler[T any](on func(before, now *T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if now, ok := object.(*T); ok {
				on(nil, now)
			}
		},
		UpdateFunc: func(old, object any) {
			before, _ := old.(*T)
			if now, ok := object.(*T); ok {
				on(before, now)
			}
		},
		DeleteFunc: func(object any) {
			tombstone, missed := object.(cache.DeletedFinalStateUnknown)
			if missed {
				object = tombstone.Obj
			}
			before, ok := object.(*T)
			if missed && object == nil {
				before, ok = fromKey[T](tombstone.Key)
			}
			if ok && before != nil {
				on(before, nil)
			}
		},
	}
}

func fromKey[T any](key string) (*T, bool) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	made := new(T)
	object, ok := any(made).(metav1.Object)
	if err != nil || !ok {
		return nil, false
	}
	object.SetNamespace(namespace)
	object.SetName(name)
	return made, true
}

// onNode takes in a Node. Volumes of a node that is back need no look: their own
// waits end with one, and find it.
func (c *Controller) onNode(before, now *metav1.PartialObjectMetadata) {
	var poolsChanged bool
	if now != nil {
		poolsChanged = c.nodes.set(&now.ObjectMeta)
	} else {
		var hosts []string
		hosts, poolsChanged = c.nodes.remove(before.Name)
		for _, host := range hosts {
			c.enqueueHost(host)
		}
	}
	if poolsChanged {
		c.enqueuePending()
	}
}

// enqueueHost has everything looked at that names the host.
func (c *Controller) enqueueHost(host string) {
	for _, v := range c.volumesOn(host) {
		c.enqueueVolume(v.Name)
	}
	for _, claim := range indexed[v1.PersistentVolumeClaim](c.claims, bySelected, host) {
		c.enqueueClaim(claimKey(claim.Namespace, claim.Name))
	}
}

// enqueuePending has all claims looked at that wait for a volume of the driver.
func (c *Controller) enqueuePending() {
	for _, name := range c.classes.ListKeys() {
		if c.classNamed(name) != nil {
			c.enqueueClass(name)
		}
	}
}

func (c *Controller) enqueueClass(name string) {
	for _, claim := range indexed[v1.PersistentVolumeClaim](c.claims, byClass, name) {
		c.enqueueClaim(claimKey(claim.Namespace, claim.Name))
	}
}

// onVolume takes in a PersistentVolume.
func (c *Controller) onVolume(before, now *v1.PersistentVolume) {
	if now != nil && isOurs(c.driverName, now) {
		c.enqueueVolume(now.Name)
	}
	if before != nil {
		c.forgetUnnamed(c.hostOf(before))
	}
	if now == nil && before.Spec.ClaimRef != nil {
		// A claim that it was made for, and that was never bound to it, waits again.
		c.enqueueClaim(claimKey(before.Spec.ClaimRef.Namespace, before.Spec.ClaimRef.Name))
	}
}

// onClaim takes in a claim, and has the volume looked at that is bound to it.
func (c *Controller) onClaim(before, now *v1.PersistentVolumeClaim) {
	claim := now
	if claim == nil {
		claim = before
	}
	c.enqueueClaim(claimKey(claim.Namespace, claim.Name))
	if claim.Spec.VolumeName != "" {
		c.enqueueVolume(claim.Spec.VolumeName)
	}
	if before != nil {
		c.forgetUnnamed(selectedNode(before))
	}
}

// onClass takes in a class: its claims may have become hopeless or hopeful, and
// its policy may allow what was to be left alone.
func (c *Controller) onClass(before, now *storagev1.StorageClass) {
	class := now
	if class == nil {
		class = before
	}
	c.enqueueClass(class.Name)
	for _, host := range c.nodes.missingHosts() {
		for _, v := range c.volumesOn(host) {
			if v.Spec.StorageClassName == class.Name {
				c.enqueueVolume(v.Name)
			}
		}
	}
}

// forgetUnnamed drops the time of a missing host that nothing names any more, so
// that the book does not grow with each node that ever was.
func (c *Controller) forgetUnnamed(host string) {
	if host == "" || len(c.volumesOn(host)) > 0 || len(indexed[v1.PersistentVolumeClaim](c.claims, bySelected, host)) > 0 {
		return
	}
	c.nodes.forget(host)
}
