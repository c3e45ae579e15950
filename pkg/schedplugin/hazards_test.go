package schedplugin

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// A hazard is a state of the API in which counting goes wrong easily. Whatever
// order its objects are seen in, and after a restart, the books and the
// decisions must be the same.
type hazard struct {
	name    string
	objects []metav1.Object
	// deleted are removed again, after all others were seen. A case that says so
	// is not restarted.
	deleted []metav1.Object
	used    map[string]int64 // "node pool"
	pod     podBuilder
	// accepted are the nodes that the pod fits; refusal is set if there is one
	// for all nodes.
	accepted []string
	refusal  Reason
}

// ssdNode has room for exactly ten volumes of 1 GiB.
func ssdNode(name string) *v1.Node { return makeNode(name, "pool-ssd", 10*gib) }

func baseObjects(more ...metav1.Object) []metav1.Object {
	return append([]metav1.Object{
		ssdNode("n1"), makeCSINode("n1"), ssdNode("n2"), makeCSINode("n2"),
		makeClass("ssd", "pool-ssd"), makeClass("ssd-too", "pool-ssd"),
	}, more...)
}

func TestBooks_Hazards(t *testing.T) {
	for _, h := range slices.Concat(chargedHazards(), placedHazards(), offerHazards(), refusedHazards()) {
		t.Run(h.name, h.run)
	}
}

// chargedHazards: what is charged, once.
func chargedHazards() []hazard {
	a, b, c := makeClaim("a", "ssd", 6*gib), makeClaim("b", "ssd-too", 4*gib), makeClaim("c", "ssd", 5*gib)
	wantsC := makePod("p").claiming("c")
	return []hazard{
		{name: "two classes share a pool",
			objects: baseObjects(a.selected("n1"), b.selected("n1"), c), used: map[string]int64{"n1 pool-ssd": 10 * gib},
			pod: wantsC, accepted: []string{"n2"}},
		{name: "class deleted while its volumes are there",
			objects: baseObjects(a.bound("v"), makeVolume("v", "pool-ssd", "n1", 6*gib).of(a), makeClaim("c", "ssd-too", 5*gib)),
			deleted: []metav1.Object{makeClass("ssd", "pool-ssd")},
			used:    map[string]int64{"n1 pool-ssd": 6 * gib}, pod: wantsC, accepted: []string{"n2"}},
		{name: "class deleted while a volume is on its way",
			objects: baseObjects(a.selected("n1"), makeClaim("c", "ssd-too", 5*gib)), deleted: []metav1.Object{makeClass("ssd", "pool-ssd")},
			used: map[string]int64{"n1 pool-ssd": 6 * gib}, pod: wantsC, accepted: []string{"n2"}},
		{name: "class gone and restarted while a volume is on its way: it may be in any pool",
			objects: baseObjects(makeClaim("a", "gone", 6*gib).selected("n1").provisioner(testDriver), c),
			used:    map[string]int64{"n1 pool-ssd": 6 * gib}, pod: wantsC, accepted: []string{"n2"}},
		{name: "class gone, but another driver was asked",
			objects: baseObjects(makeClaim("a", "gone", 6*gib).selected("n1").provisioner("other.example.com"), c),
			used:    map[string]int64{"n1 pool-ssd": 0}, pod: wantsC, accepted: []string{"n1", "n2"}},
		{name: "volumes released, failed and terminating take their bytes",
			objects: baseObjects(makeVolume("v1", "pool-ssd", "n1", gib).of(a).phase(v1.VolumeReleased), makeVolume("v2", "pool-ssd", "n1", 2*gib).of(b).phase(v1.VolumeFailed),
				terminating(makeVolume("v3", "pool-ssd", "n1", 3*gib).of(makeClaim("x", "ssd", gib))), c),
			used: map[string]int64{"n1 pool-ssd": 6 * gib}, pod: wantsC, accepted: []string{"n2"}},
		{name: "a claim and its volume are one",
			objects: baseObjects(a.selected("n1").bound("v"), makeVolume("v", "pool-ssd", "n1", 6*gib).of(a)), used: map[string]int64{"n1 pool-ssd": 6 * gib}},
		{name: "the volume that was made for a claim is the one on its way",
			objects: baseObjects(a.selected("n1"), makeVolume("pvc-uid-a", "pool-ssd", "n1", 6*gib).of(a)), used: map[string]int64{"n1 pool-ssd": 6 * gib}},
		{name: "a volume that exists was chosen for one pod, a new one for another pod with the same claim",
			objects: baseObjects(a.selected("n2"), makeVolume("s", "pool-ssd", "n1", 6*gib).of(a)), used: map[string]int64{"n1 pool-ssd": 6 * gib, "n2 pool-ssd": 6 * gib}},
		{name: "the same on one node",
			objects: baseObjects(makeClaim("c", "ssd", 4*gib).selected("n1"), makeVolume("s", "pool-ssd", "n1", 5*gib).of(c)), used: map[string]int64{"n1 pool-ssd": 9 * gib}},
		{name: "two volumes of one claim",
			objects: baseObjects(makeVolume("s", "pool-ssd", "n1", 2*gib).of(a), makeVolume("t", "pool-ssd", "n1", gib).of(a)), used: map[string]int64{"n1 pool-ssd": 3 * gib}},
		{name: "a claim grows the volume it is bound to, not another one of its own",
			objects: baseObjects(a.bound("v"), makeVolume("v", "pool-ssd", "n2", 4*gib).of(a), makeVolume("s", "pool-ssd", "n1", 2*gib).of(a)),
			used:    map[string]int64{"n1 pool-ssd": 2 * gib, "n2 pool-ssd": 6 * gib}},
		{name: "several claims of a pod go together",
			objects: baseObjects(a, b, makeClaim("d", "ssd", gib)), pod: makePod("p").claiming("a", "b", "d"), accepted: nil},
		{name: "several claims that fit exactly",
			objects: baseObjects(a, b), pod: makePod("p").claiming("a", "b"), accepted: []string{"n1", "n2"}},
		{name: "one bound and one new",
			objects: baseObjects(a.bound("v"), makeVolume("v", "pool-ssd", "n1", 6*gib).of(a), c), used: map[string]int64{"n1 pool-ssd": 6 * gib},
			pod: makePod("p").claiming("a", "c"), accepted: []string{"n2"}},
		{name: "generic ephemeral volumes add up",
			objects: baseObjects(makeClaim("p-e1", "ssd", 6*gib).ownedBy(makePod("p").Pod), makeClaim("p-e2", "ssd", 5*gib).ownedBy(makePod("p").Pod)),
			pod:     makePod("p").ephemeral("e1").ephemeral("e2"), accepted: nil},
		{name: "ephemeral volume's claim of another pod",
			objects: baseObjects(makeClaim("p-e1", "ssd", 6*gib).ownedBy(makePod("other").Pod)), pod: makePod("p").ephemeral("e1"), refusal: ReasonClaimNotOwned},
		{name: "inline volumes of running pods, and of finished ones",
			objects: baseObjects(makePod("r").inline("pool-ssd", 6*gib).on("n1"), finishedPod(makePod("f").inline("pool-ssd", 6*gib).on("n2")), c),
			used:    map[string]int64{"n1 pool-ssd": 6 * gib, "n2 pool-ssd": 0}, pod: wantsC, accepted: []string{"n2"}},
	}
}

// placedHazards: where it is charged, and how much.
func placedHazards() []hazard {
	a, c := makeClaim("a", "ssd", 6*gib), makeClaim("c", "ssd", 5*gib)
	wantsC := makePod("p").claiming("c")
	hdd := makeNode("n3", "pool-hdd", 100*gib)
	return []hazard{
		{name: "selected-node removed after ResourceExhausted",
			objects: baseObjects(a.selected("n1").unselected(), c), used: map[string]int64{"n1 pool-ssd": 0}, pod: wantsC, accepted: []string{"n1", "n2"}},
		{name: "selected-node of a deleted node is held apart",
			objects: baseObjects(a.selected("n9"), c), used: map[string]int64{"n9 pool-ssd": 6 * gib, "n1 pool-ssd": 0}, pod: wantsC, accepted: []string{"n1", "n2"}},
		{name: "volumes stay with the name of a node that is gone",
			objects: baseObjects(a.bound("v"), makeVolume("v", "pool-ssd", "n1", 6*gib).of(a), c), deleted: []metav1.Object{ssdNode("n1"), makeCSINode("n1")},
			used: map[string]int64{"n1 pool-ssd": 6 * gib}, pod: wantsC, accepted: []string{"n2"}},
		{name: "an expansion counts as soon as the claim asks",
			objects: baseObjects(a.bound("v").asking(8*gib), makeVolume("v", "pool-ssd", "n1", 6*gib).of(a), makeClaim("c", "ssd", 3*gib)),
			used:    map[string]int64{"n1 pool-ssd": 8 * gib}, pod: wantsC, accepted: []string{"n2"}},
		{name: "a claim deleted while its volume may still be seen to grow",
			objects: baseObjects(a.bound("v").asking(8*gib), makeVolume("v", "pool-ssd", "n1", 6*gib).of(a), makeClaim("c", "ssd", 3*gib)), deleted: []metav1.Object{a},
			used: map[string]int64{"n1 pool-ssd": 8 * gib}, pod: wantsC, accepted: []string{"n2"}},
		{name: "a released volume has grown for the last time",
			objects: baseObjects(a.bound("v").asking(8*gib), makeVolume("v", "pool-ssd", "n1", 6*gib).of(a).phase(v1.VolumeReleased), makeClaim("c", "ssd", 3*gib)), deleted: []metav1.Object{a},
			used: map[string]int64{"n1 pool-ssd": 6 * gib}, pod: wantsC, accepted: []string{"n1", "n2"}},
		{name: "sizes are rounded to extents", objects: baseObjects(makeClaim("a", "ssd", gib+1).selected("n1")), used: map[string]int64{"n1 pool-ssd": gib + 4*mib}},
		{name: "a small xfs volume is made larger (metal-stack/csi-driver-lvm#129)",
			objects: baseObjects(makeClass("xfs", "pool-ssd", capacity.ParamFilesystem, "xfs"), makeClaim("a", "xfs", 100*mib).selected("n1")),
			used:    map[string]int64{"n1 pool-ssd": 300 * mib}},
		{name: "a class that names no file system makes the pool's default",
			objects: []metav1.Object{reporting(ssdNode("n1"), `{"filesystems":{"pool-ssd":"xfs"}}`), makeCSINode("n1"), makeClass("ssd", "pool-ssd"),
				makeClaim("a", "ssd", 100*mib).selected("n1"), block(makeClaim("b", "ssd", 100*mib)).selected("n1"), makeVolume("v", "pool-ssd", "n1", 100*mib)},
			used: map[string]int64{"n1 pool-ssd": 500 * mib}},
		{name: "copies of RAID1 and their metadata",
			objects: baseObjects(makeClass("safe", "pool-ssd", "layout", "raid1", "mirrors", "2"), makeClaim("a", "safe", gib).selected("n1"), makeClaim("c", "ssd", 8*gib)),
			used:    map[string]int64{"n1 pool-ssd": 2*gib + 8*mib}, pod: wantsC, accepted: []string{"n2"}},
		{name: "RAID1 volume by its own attributes",
			objects: baseObjects(makeVolume("v", "pool-ssd", "n1", gib).attribute("layout", "raid1").attribute("mirrors", "3")), used: map[string]int64{"n1 pool-ssd": 3*gib + 12*mib}},
		{name: "volume without a pool takes its class's",
			objects: baseObjects(makeVolume("v", "", "n1", gib).class("ssd")), used: map[string]int64{"n1 pool-ssd": gib}},
		{name: "volume of unknown pool counts in every one",
			objects: baseObjects(makeVolume("v", "", "n1", 6*gib).class("gone"), c), used: map[string]int64{"n1 pool-ssd": 6 * gib}, pod: wantsC, accepted: []string{"n2"}},
		{name: "volume found by the hostname label", objects: baseObjects(named(ssdNode("n4"), "host-4"), makeVolume("v", "pool-ssd", "", 6*gib).byHostname("host-4")),
			used: map[string]int64{"n4 pool-ssd": 6 * gib}},
		{name: "a hostname that two nodes have counts on both", objects: append(baseObjects(), named(ssdNode("n4"), "twin"), named(ssdNode("n5"), "twin"), makeVolume("v", "pool-ssd", "", 6*gib).byHostname("twin")),
			used: map[string]int64{"n4 pool-ssd": 6 * gib, "n5 pool-ssd": 6 * gib}},
		{name: "driver not in CSINode", objects: []metav1.Object{ssdNode("n1"), ssdNode("n2"), makeCSINode("n2"), makeClass("ssd", "pool-ssd"), c}, pod: wantsC, accepted: []string{"n2"}},
		{name: "pool on some nodes only", objects: append(baseObjects(c), hdd, makeCSINode("n3")), pod: wantsC, accepted: []string{"n1", "n2"}},
		{name: "pool on no node", objects: baseObjects(makeClass("nvme", "pool-nvme"), makeClaim("c", "nvme", gib)), pod: wantsC, refusal: ReasonPoolUnknown},
	}
}

// offerHazards: volumes that exist and are bound to no claim.
func offerHazards() []hazard {
	a, c := makeClaim("a", "ssd", 6*gib), makeClaim("c", "ssd", 5*gib)
	wantsC := makePod("p").claiming("c")
	return []hazard{
		{name: "static volume lets a claim onto a full node",
			objects: baseObjects(makeVolume("v", "pool-ssd", "n1", 4*gib).of(a), makeVolume("s", "pool-ssd", "n1", 6*gib).class("ssd"), c),
			used:    map[string]int64{"n1 pool-ssd": 10 * gib}, pod: wantsC, accepted: []string{"n1", "n2"}},
		{name: "static volume of another class does not",
			objects: baseObjects(makeVolume("v", "pool-ssd", "n1", 4*gib), makeVolume("s", "pool-ssd", "n1", 6*gib).class("ssd-too"), c),
			pod:     wantsC, accepted: []string{"n2"}},
		{name: "static volume serves one claim only",
			objects: baseObjects(makeVolume("v", "pool-ssd", "n1", 4*gib), makeVolume("s", "pool-ssd", "n1", 6*gib).class("ssd"), makeClaim("d", "ssd", 3*gib), c),
			pod:     makePod("p").claiming("c", "d"), accepted: []string{"n2"}},
	}
}

// refusedHazards: what no node can run, and what is none of this plugin's business.
func refusedHazards() []hazard {
	c := makeClaim("c", "ssd", 5*gib)
	wantsC := makePod("p").claiming("c")
	return []hazard{
		{name: "claim without a class, for a static volume (deckhouse/sds-node-configurator#256)",
			objects: baseObjects(makeClaim("c", "", 100*gib)), pod: wantsC, accepted: []string{"n1", "n2"}},
		{name: "claim of a missing class", objects: baseObjects(makeClaim("c", "gone", gib)), pod: wantsC, refusal: ReasonClassMissing},
		{name: "bound claims impose nothing, whatever became of their class",
			objects: baseObjects(makeClaim("c", "gone", 100*gib).bound("v"), makeVolume("v", "pool-ssd", "n1", 100*gib).of(c)), pod: wantsC, accepted: []string{"n1", "n2"}},
		{name: "bound claim of another driver", objects: baseObjects(makeClaim("c", "gone", 100*gib).selected("n1").bound("v"), foreignVolume("v", c)),
			used: map[string]int64{"n1 pool-ssd": 0}, pod: wantsC, accepted: []string{"n1", "n2"}},
		{name: "claim that binds immediately", objects: append(baseObjects(makeClaim("c", "now", gib)), immediate(makeClass("now", "pool-ssd"))), pod: wantsC, refusal: ReasonImmediate},
		{name: "class with a misspelt parameter", objects: append(baseObjects(makeClaim("c", "odd", gib)), makeClass("odd", "pool-ssd", "layuot", "raid1")), pod: wantsC, refusal: ReasonClassUnreadable},
		{name: "missing claim", objects: baseObjects(), pod: wantsC, refusal: ReasonClaimMissing},
		{name: "lost claim", objects: baseObjects(c.phase(v1.ClaimLost)), pod: wantsC, refusal: ReasonClaimUnusable},
		{name: "inline volume with an unknown attribute", objects: baseObjects(), pod: oddInline(makePod("p").inline("pool-ssd", gib)), refusal: ReasonInlineUnreadable},
		{name: "inline volume of another driver is not ours", objects: baseObjects(), pod: otherInline(makePod("p").inline("pool-ssd", 100*gib)), accepted: []string{"n1", "n2"}},
	}
}

func terminating(v volumeBuilder) volumeBuilder {
	now := metav1.Now()
	v.DeletionTimestamp = &now
	return v
}

func finishedPod(p podBuilder) podBuilder {
	p.Status.Phase = v1.PodSucceeded
	return p
}

func named(n *v1.Node, hostname string) *v1.Node {
	n.Labels[v1.LabelHostname] = hostname
	return n
}

func foreignVolume(name string, c claimBuilder) volumeBuilder {
	v := makeVolume(name, "x", "n1", gib).of(c)
	v.Spec.CSI.Driver = "other.example.com"
	return v
}

func oddInline(p podBuilder) podBuilder {
	p.Spec.Volumes[0].CSI.VolumeAttributes["siez"] = "1Gi"
	return p
}

func otherInline(p podBuilder) podBuilder {
	p.Spec.Volumes[0].CSI.Driver = "other.example.com"
	return p
}

func (h hazard) run(t *testing.T) {
	backwards := slices.Clone(h.objects)
	slices.Reverse(backwards)
	for name, objects := range map[string][]metav1.Object{"in order": h.objects, "backwards": backwards} {
		f := newFixture(t, objects...)
		f.remove(h.deleted...)
		h.check(t, name, f)
		for _, o := range objects { // once more changes nothing
			o = bare(o)
			f.sync(streamOf(t, o), keyOf(o))
		}
		h.check(t, name+", repeated", f)
		if len(h.deleted) == 0 {
			f.restart()
			h.check(t, name+", restarted", f)
		}
	}
}

func (h hazard) check(t *testing.T, how string, f *fixture) {
	t.Helper()
	for where, want := range h.used {
		var node, pool string
		if _, err := fmt.Sscan(where, &node, &pool); err != nil {
			t.Fatal(err)
		}
		f.wantUsed(how, node, pool, want)
	}
	if h.pod.Pod == nil {
		return
	}
	_, _, refused := f.filter(h.pod)
	if h.refusal != ReasonNone {
		if refused.Code() != framework.UnschedulableAndUnresolvable || f.plugin.shared.waiting.last(h.pod.UID).refusal != h.refusal {
			t.Errorf("%s: refused as %v %q, want %s", how, refused.Code(), refused.Message(), h.refusal)
		}
		return
	}
	if refused.IsRejected() || refused.IsError() {
		t.Fatalf("%s: refused: %v", how, refused.Message())
	}
	accepted := f.accepted(h.pod)
	for _, n := range f.nodes() {
		if want := slices.Contains(h.accepted, n.node.Name); accepted[n.node.Name] != want {
			t.Errorf("%s: %s accepted: %v, want %v", how, n.node.Name, !want, want)
		}
	}
}
