package schedplugin

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
)

// TestHints: a pod is woken when, and only when, what it waits for changed. The
// ledger's own handlers have not seen the event yet in any of the cases: the
// hint must do that itself.
func TestHints(t *testing.T) {
	c, other := makeClaim("c", "ssd", 6*gib), makeClaim("other", "ssd-too", 5*gib)
	waiting := makePod("p").claiming("c")
	full := []metav1.Object{makeNode("n1", "pool-ssd", 10*gib, "pool-hdd", gib), makeCSINode("n1"), makeClass("ssd", "pool-ssd"), makeClass("ssd-too", "pool-ssd")}
	volume := makeVolume("v", "pool-ssd", "n1", 5*gib).of(other)
	occupied := append([]metav1.Object{c, other.bound("v"), volume}, full...)
	node := full[0].(*v1.Node)
	labelled := node.DeepCopy()
	labelled.Labels["zone"] = "a"
	annotated := node.DeepCopy()
	annotated.Annotations["example.com/other"] = "x"
	without := func(objects []metav1.Object, i int) []metav1.Object {
		return append(append([]metav1.Object{}, objects[:i]...), objects[i+1:]...)
	}
	for _, tc := range []struct {
		name          string
		objects       []metav1.Object
		pod           podBuilder
		resource      framework.EventResource
		before, after metav1.Object
		want          framework.QueueingHint
	}{
		{"the first node with the pool comes", append([]metav1.Object{c}, full[2:]...), waiting, framework.Node, nil, node, framework.Queue},
		{"its CSINode comes", append([]metav1.Object{c, node}, full[2:]...), waiting, framework.CSINode, nil, makeCSINode("n1"), framework.Queue},
		{"the node publishes more", occupied, waiting, framework.Node, node, makeNode("n1", "pool-ssd", 20*gib, "pool-hdd", gib), framework.Queue},
		{"the node publishes a little more", occupied, waiting, framework.Node, node, makeNode("n1", "pool-ssd", 10*gib+1, "pool-hdd", gib), framework.QueueSkip},
		{"another pool grows", occupied, waiting, framework.Node, node, makeNode("n1", "pool-ssd", 10*gib, "pool-hdd", 100*gib), framework.QueueSkip},
		{"somebody else's annotation", occupied, waiting, framework.Node, node, annotated, framework.QueueSkip},
		{"somebody else's label", occupied, waiting, framework.Node, node, labelled, framework.QueueSkip},
		{"a volume is gone", occupied, waiting, framework.PersistentVolume, volume, nil, framework.Queue},
		{"a small volume is gone", append(occupied, makeVolume("w", "pool-ssd", "n1", gib/2)), waiting, framework.PersistentVolume, makeVolume("w", "pool-ssd", "n1", gib/2), nil, framework.QueueSkip},
		{"a volume of another driver is gone", occupied, waiting, framework.PersistentVolume, foreignVolume("f", other), nil, framework.QueueSkip},
		{"a volume is released", occupied, waiting, framework.PersistentVolume, volume, volume.phase(v1.VolumeReleased), framework.QueueSkip},
		{"a volume is offered", occupied, waiting, framework.PersistentVolume, nil, makeVolume("s", "pool-ssd", "n1", 6*gib).class("ssd"), framework.Queue},
		{"a claim gives up its node", append([]metav1.Object{c, other.selected("n1")}, full...), waiting, framework.PersistentVolumeClaim, other.selected("n1"), other.selected("n1").unselected(), framework.Queue},
		{"a claim is selected", append([]metav1.Object{c, other}, full...), waiting, framework.PersistentVolumeClaim, other, other.selected("n1"), framework.QueueSkip},
		{"a claim that was growing asks for less", append([]metav1.Object{c, makeClaim("o", "ssd", 6*gib).bound("w"), makeVolume("w", "pool-ssd", "n1", 2*gib).of(makeClaim("o", "ssd", gib))}, full...), waiting,
			framework.PersistentVolumeClaim, makeClaim("o", "ssd", 6*gib).bound("w"), makeClaim("o", "ssd", 2*gib).bound("w").asking(2 * gib), framework.Queue},
		{"a new claim of somebody else", occupied, waiting, framework.PersistentVolumeClaim, nil, makeClaim("new", "ssd", gib), framework.QueueSkip},
		{"the pod's claim comes", without(occupied, 0), waiting, framework.PersistentVolumeClaim, nil, c, framework.Queue},
		{"the pod's claim changes", occupied, waiting, framework.PersistentVolumeClaim, c, c.asking(gib), framework.Queue},
		{"the pod's claim gets a label", occupied, waiting, framework.PersistentVolumeClaim, c, c.bumped(), framework.QueueSkip},
		{"a claim of that name elsewhere", occupied, waiting, framework.PersistentVolumeClaim, nil, elsewhere(c), framework.QueueSkip},
		{"a pod with an inline volume is gone", append([]metav1.Object{c, makePod("i").inline("pool-ssd", 5*gib).on("n1")}, full...), waiting, framework.AssignedPod, makePod("i").inline("pool-ssd", 5*gib).on("n1"), nil, framework.Queue},
		{"a pod with the same claim gives up another node", occupied, waiting, framework.AssignedPod, makePod("q").claiming("c").on("n2"), nil, framework.Queue},
		{"a pod with another claim gives up another node", occupied, waiting, framework.AssignedPod, makePod("q").claiming("other").on("n2"), nil, framework.QueueSkip},
		{"a pod without volumes is gone", occupied, waiting, framework.AssignedPod, makePod("i").on("n1"), nil, framework.QueueSkip},
		{"the class comes", without(append([]metav1.Object{c}, full...), 3), waiting, framework.StorageClass, nil, makeClass("ssd", "pool-ssd"), framework.Queue},
		{"another class comes", without(append([]metav1.Object{c}, full...), 3), waiting, framework.StorageClass, nil, makeClass("x", "pool-ssd"), framework.QueueSkip},
		{"the class gets a label", append([]metav1.Object{c}, full...), waiting, framework.StorageClass, makeClass("ssd", "pool-ssd"), makeClass("ssd", "pool-ssd"), framework.QueueSkip},
		{"more volumes are allowed", append([]metav1.Object{c, makeCSINode("n1", 1)}, without(full, 1)...), waiting, framework.CSINode, makeCSINode("n1", 1), makeCSINode("n1", 2), framework.Queue},
		{"another driver's count", occupied, waiting, framework.CSINode, makeCSINode("n1"), makeCSINode("n1"), framework.QueueSkip},
		{"the first node with the pool", append([]metav1.Object{c, makeNode("n1", "pool-hdd", gib)}, full[1:]...), waiting, framework.Node, makeNode("n1", "pool-hdd", gib), node, framework.Queue},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, tc.objects...)
			if _, _, refused := f.filter(tc.pod); refused.IsError() || refused.IsSkip() {
				t.Fatalf("PreFilter: %v", refused)
			}
			if tc.after != nil {
				f.cache(tc.after)
			} else {
				object := bare(tc.before)
				must(t, f.caches[streamOf(t, object)].Delete(object))
			}
			if got := f.ask(tc.resource, tc.pod, bareOrNil(tc.before), bareOrNil(tc.after)); got != tc.want {
				t.Errorf("hint is %v, want %v", got, tc.want)
			}
			if tc.after == nil { // a tombstone that knows nothing: rather once too often
				if got := f.ask(tc.resource, tc.pod, cache.DeletedFinalStateUnknown{Key: "x"}, nil); got != framework.Queue {
					t.Errorf("unknown deletion: %v", got)
				}
			}
		})
	}
}

func elsewhere(c claimBuilder) claimBuilder {
	c = c.copied()
	c.Namespace = "elsewhere"
	return c
}

func bareOrNil(o metav1.Object) any {
	if o == nil {
		return nil
	}
	return bare(o)
}

// ask puts an event to all hints that are registered for it.
func (f *fixture) ask(resource framework.EventResource, pod podBuilder, before, after any) framework.QueueingHint {
	f.t.Helper()
	action := framework.Update
	switch {
	case before == nil:
		action = framework.Add
	case after == nil:
		action = framework.Delete
	}
	registered, err := f.plugin.EventsToRegister(context.Background())
	must(f.t, err)
	for _, r := range registered {
		if r.Event.Resource != resource || r.Event.ActionType&action == 0 {
			continue
		}
		hint, err := r.QueueingHintFn(klog.Background(), pod.Pod, before, after)
		must(f.t, err)
		if hint == framework.Queue {
			return hint
		}
	}
	return framework.QueueSkip
}

// A failed binding frees what the pod had reserved; the event carries the pod.
func TestHints_AfterAFailedBinding(t *testing.T) {
	f := newFixture(t, makeNode("n1", "pool-ssd", 10*gib), makeCSINode("n1"), makeClass("ssd", "pool-ssd"), makeClaim("a", "ssd", 10*gib), makeClaim("b", "ssd", 10*gib))
	one, two := makePod("one").claiming("a"), makePod("two").claiming("b")
	state := f.reserve(one, "n1")
	if _, statuses, _ := f.filter(two); statuses["n1"].IsSuccess() {
		t.Fatal("two should wait")
	}
	if got := f.ask(framework.AssignedPod, two, one.on("n1").Pod, nil); got != framework.QueueSkip {
		t.Errorf("before Unreserve: %v", got)
	}
	f.unreserve(state, one, "n1")
	if got := f.ask(framework.AssignedPod, two, one.on("n1").Pod, nil); got != framework.Queue {
		t.Errorf("after Unreserve: %v", got)
	}
}

// A pod that lacks a slot waits for any pod with volumes to go.
func TestHints_SlotBecomesFree(t *testing.T) {
	running := makePod("r").claiming("other").on("n1")
	other := makeClaim("other", "ssd", gib).bound("v")
	f := newFixture(t, makeNode("n1", "pool-ssd", 10*gib), makeCSINode("n1", 1), makeClass("ssd", "pool-ssd"), other, makeVolume("v", "pool-ssd", "n1", gib).of(other), running)
	pod := makePod("p").inline("pool-ssd", gib)
	if _, statuses, _ := f.filter(pod); statuses["n1"].IsSuccess() {
		t.Fatal("no slot is free")
	}
	if got := f.ask(framework.AssignedPod, pod, running.Pod, nil); got != framework.Queue {
		t.Errorf("hint is %v", got)
	}
}

func TestHints_HostnameMoves(t *testing.T) {
	f := newFixture(t, named(ssdNode("n1"), "h"), makeCSINode("n1"), makeClass("ssd", "pool-ssd"), makeVolume("v", "pool-ssd", "", 6*gib).byHostname("h"), makeClaim("c", "ssd", 6*gib))
	pod := makePod("p").claiming("c")
	if _, statuses, _ := f.filter(pod); statuses["n1"].IsSuccess() {
		t.Fatal("n1 is full")
	}
	moved := named(ssdNode("n1"), "h2")
	f.cache(moved)
	if got := f.ask(framework.Node, pod, named(ssdNode("n1"), "h"), moved); got != framework.Queue {
		t.Errorf("hint is %v", got)
	}
}

func TestHints_ExtentSizeIsPartOfWhatANodePublishes(t *testing.T) {
	before, after := ssdNode("n1"), ssdNode("n1")
	after = reporting(after, `{"extentSizes":{"pool-ssd":"33554432"}}`)
	f := newFixture(t, before, makeCSINode("n1"), makeClass("ssd", "pool-ssd"), makeClaim("a", "ssd", gib+1).selected("n1"))
	f.wantUsed("default extents", "n1", "pool-ssd", gib+4*mib)
	f.put(after)
	f.wantUsed("extents of 32 MiB", "n1", "pool-ssd", gib+32*mib)
	f.put(before)
	f.wantUsed("default again", "n1", "pool-ssd", gib+4*mib)
}
