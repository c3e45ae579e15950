package schedplugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
)

// EventsToRegister names what can make room for a pod that was refused, or
// repair what it was refused for.
//
// A hint may be called before the ledger's own handler has seen the same event
// (kubernetes/kubernetes#73216). So each first books the event's object itself,
// and then judges by the books: the pod is woken when it would fit now.
func (p *LocalCapacity) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	on := func(resource framework.EventResource, actions framework.ActionType, hint hintFn) framework.ClusterEventWithHint {
		return framework.ClusterEventWithHint{
			Event:          framework.ClusterEvent{Resource: resource, ActionType: actions},
			QueueingHintFn: p.hint(resource, hint),
		}
	}
	return []framework.ClusterEventWithHint{
		// A node comes, or publishes other figures.
		on(framework.Node, framework.Add|framework.UpdateNodeAnnotation, p.afterNode),
		// A volume that only a hostname label places may move to another node.
		on(framework.Node, framework.UpdateNodeLabel, p.afterNode),
		// The driver is registered, or more volumes are allowed.
		on(framework.CSINode, framework.Add|framework.Update, p.afterCSINode),
		// A volume is gone, is smaller than was reserved for it, or is on offer.
		on(framework.PersistentVolume, framework.Add|framework.Update|framework.Delete, p.afterVolume),
		// The pod's claim comes or changes; another claim gives its node up, or
		// asks for less, or is gone.
		on(framework.PersistentVolumeClaim, framework.Add|framework.Update|framework.Delete, p.afterClaim),
		// A pod with inline volumes is gone or has finished (the scheduler sees no
		// finished pods); or a pod's binding failed and its reservations ended.
		on(framework.AssignedPod, framework.Delete, p.afterPod),
		// The class of one of the pod's claims comes, or can be read now.
		on(framework.StorageClass, framework.Add|framework.Update, p.afterClass),
	}, nil
}

// event is what a hint is told of: before is nil for an addition, after for a
// deletion, and both if a deletion was missed and the object is not known.
type event struct {
	pod           *v1.Pod
	before, after any
}

// hintFn tells whether the event is worth another attempt for the pod.
type hintFn func(e event) (bool, error)

func (p *LocalCapacity) hint(resource framework.EventResource, decide hintFn) framework.QueueingHintFn {
	return func(log klog.Logger, pod *v1.Pod, before, after any) (framework.QueueingHint, error) {
		e := event{pod: pod, before: opened(before), after: opened(after)}
		queue, err := decide(e)
		log.V(5).Info("Event judged", "plugin", Name, "pod", klog.KObj(pod), "resource", resource, "queue", queue, "err", err)
		if err != nil || queue {
			// Rather once too often than a pod that waits for ever.
			return framework.Queue, err
		}
		return framework.QueueSkip, nil
	}
}

// opened takes the object out of a tombstone; nil if there is none.
func opened(object any) any {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		return tombstone.Obj
	}
	return object
}

// both casts the event's objects; unknown tells that there is nothing to judge by.
func both[T any](e event) (before, after *T, unknown bool) {
	before, _ = e.before.(*T)
	after, _ = e.after.(*T)
	return before, after, before == nil && after == nil
}

// name is the name of the event's object.
func objectName(e event) (namespace, name string, err error) {
	if e.after != nil {
		return nameOf(e.after)
	}
	return nameOf(e.before)
}

// sync books the event's object, once for all the pods that are asked about it.
func (b *driverBooks) sync(e event, sync func(namespace, name string) error) error {
	object := e.after
	if object == nil {
		object = e.before
	}
	if b.hinted.is(object) {
		return nil
	}
	namespace, name, err := objectName(e)
	if err != nil {
		return err
	}
	if err := sync(namespace, name); err != nil {
		return err
	}
	b.hinted.set(object)
	return nil
}

// fitsOneOf tells whether the pod would fit one of the nodes now, as far as the
// driver's pools are concerned. Where it is not known what the pod wants, it
// may. A pod that was refused for all nodes waits for something else.
func (p *LocalCapacity) fitsOneOf(pod *v1.Pod, b *driverBooks, nodes []string) bool {
	c := p.shared.waiting.last(pod.UID)
	if c == nil {
		return true
	}
	for _, node := range nodes {
		if c.fits(b, node) {
			return true
		}
	}
	return false
}

// fits judges by what the pod wanted at its last attempt. If that has changed,
// so has one of its own objects, whose event wakes it.
func (c *cycle) fits(b *driverBooks, node string) bool {
	for i := range c.drivers {
		if c.drivers[i].books != b {
			continue
		}
		_, ok := b.ledger.Fits(node, c.drivers[i].wants)
		return ok
	}
	return false // it wants nothing of this driver
}
