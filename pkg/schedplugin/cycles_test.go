package schedplugin

import (
	"context"
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// kubernetes/kubernetes#73216: two pods with one claim on one node.
func TestReserve_SharedClaimIsChargedOnceUntilItsLastHolderGoes(t *testing.T) {
	c := makeClaim("c", "ssd", 10*gib)
	one, two := makePod("one").claiming("c"), makePod("two").claiming("c")
	f := newFixture(t, baseObjects(c)...)
	before := f.ledger.books()
	stateOne := f.reserve(one, "n1")
	stateTwo := f.reserve(two, "n1")
	f.wantUsed("both hold", "n1", "pool-ssd", 10*gib)
	f.unreserve(stateOne, one, "n1")
	f.wantUsed("one is left", "n1", "pool-ssd", 10*gib)
	f.unreserve(stateTwo, two, "n1")
	f.unreserve(stateTwo, two, "n1")
	f.unreserve(newState(), two, "n1")
	if after := f.ledger.books(); !maps.Equal(before, after) {
		t.Errorf("Reserve and Unreserve left %v, before %v", after, before)
	}
}

func TestUnreserve_BeforePermitIsTheIdentity(t *testing.T) {
	f := newFixture(t, baseObjects(makeClaim("a", "ssd", gib), makeClaim("b", "ssd-too", gib), makeClaim("c", "ssd", gib), makeVolume("s", "pool-ssd", "n1", 2*gib).class("ssd"))...)
	before := f.ledger.books()
	pod := makePod("p").claiming("a", "b", "c").inline("pool-ssd", gib)
	for range 2 {
		state := f.reserve(pod, "n1")
		f.wantUsed("reserved", "n1", "pool-ssd", 6*gib)
		if status := f.plugin.Reserve(context.Background(), state, pod.Pod, "n1"); !status.IsSuccess() {
			t.Errorf("Reserve again: %v", status)
		}
		f.wantUsed("reserved twice", "n1", "pool-ssd", 6*gib)
		f.unreserve(state, pod, "n1")
		if after := f.ledger.books(); !maps.Equal(before, after) {
			t.Fatalf("books are %v, were %v", after, before)
		}
	}
	if len(f.open) > 0 || len(f.ledger.holders)+len(f.ledger.holderNames) > 0 {
		t.Errorf("left behind: %v %v", f.open, f.ledger.holders)
	}
}

// Reserve goes from driver to driver; what one refuses, none keeps.
func TestReserve_OneDriverRefusesForAll(t *testing.T) {
	const other = "other.example.com"
	node, csiNode, class := ssdNode("n1"), makeCSINode("n1"), makeClass("theirs", "pool-x")
	node.Annotations[capacity.PoolsAnnotation(other)] = `{"pool-x":"1073741824"}`
	csiNode.Spec.Drivers = append(csiNode.Spec.Drivers, storagev1.CSINodeDriver{Name: other, NodeID: "n1"})
	class.Provisioner = other
	rival := makeClaim("rival", "theirs", gib)
	f := newFixture(t, node, csiNode, class, makeClass("ssd", "pool-ssd"), makeClaim("a", "ssd", 6*gib), makeClaim("b", "theirs", gib), rival)
	f.plugin = testPlugin(f.listers, testDriver, other)
	ours, theirs := f.plugin.drivers[0].ledger, f.plugin.drivers[1].ledger
	for _, f.ledger = range []*Ledger{theirs, ours} {
		for s := range streams {
			for _, key := range f.caches[s].ListKeys() {
				f.sync(s, key)
			}
		}
	}
	pod := makePod("p").claiming("a", "b")
	state, statuses, _ := f.filter(pod)
	if !statuses["n1"].IsSuccess() {
		t.Fatalf("n1: %v", statuses["n1"])
	}
	f.cache(rival.selected("n1"))
	must(t, theirs.SyncClaim(rival.Namespace, rival.Name))
	if status := f.plugin.Reserve(context.Background(), state, pod.Pod, "n1"); status.IsSuccess() {
		t.Error("pool-x is full")
	}
	if used := ours.Pool("n1", "pool-ssd").UsedBytes; used != 0 || len(ours.holders)+len(theirs.holders) > 0 {
		t.Errorf("%d bytes are still reserved in the other driver's pool", used)
	}
}

func TestReserve_RefusesWhatNoLongerFitsAndChangesNothing(t *testing.T) {
	a, b := makeClaim("a", "ssd", 6*gib), makeClaim("b", "ssd", 6*gib)
	pod := makePod("p").claiming("a")
	f := newFixture(t, baseObjects(a, b)...)
	state, _, _ := f.filter(pod)
	f.put(b.selected("n1"))
	before := f.ledger.books()
	status := f.plugin.Reserve(context.Background(), state, pod.Pod, "n1")
	if status.Code() != framework.UnschedulableAndUnresolvable || status.Message() != ReasonInsufficientCapacity.String() {
		t.Errorf("Reserve: %v %q", status.Code(), status.Message())
	}
	if after := f.ledger.books(); !maps.Equal(before, after) {
		t.Errorf("books are %v, were %v", after, before)
	}
}

// What may be in the API after a failed binding cycle stays charged.
func TestUnreserve_AfterPermit(t *testing.T) {
	a := makeClaim("a", "ssd", 6*gib)
	pod := makePod("p").claiming("a")
	for _, tc := range []struct {
		name string
		// seen is what the cache shows of the claim before Unreserve, told after it.
		seen, told []metav1.Object
		settled    bool
		used       int64
	}{
		{name: "nothing seen, nothing known", used: 6 * gib},
		{name: "the API says that nothing was written", settled: true, used: 0},
		{name: "written and seen", seen: []metav1.Object{a.selected("n1")}, used: 6 * gib},
		{name: "written, seen late", told: []metav1.Object{a.selected("n1")}, used: 6 * gib},
		{name: "written, refused, cleared and seen", seen: []metav1.Object{a.selected("n1"), a.selected("n1").unselected()}, used: 0},
		{name: "written and cleared, seen at once", told: []metav1.Object{a.selected("n1").unselected()}, used: 0},
		{name: "written by another cycle for another node", told: []metav1.Object{a.selected("n2")}, used: 0},
		{name: "changed by somebody else, so the write was a conflict", told: []metav1.Object{a.asking(7 * gib)}, used: 0},
		{name: "volume seen", told: []metav1.Object{makeVolume("v", "pool-ssd", "n1", 6*gib).of(a)}, used: 6 * gib},
		{name: "volume seen on another node", told: []metav1.Object{a.selected("n2").bound("v"), makeVolume("v", "pool-ssd", "n2", 6*gib).of(a)}, used: 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, baseObjects(a)...)
			state := f.reserve(pod, "n1")
			f.permit(state, pod, "n1")
			for _, o := range tc.seen {
				f.put(o)
			}
			f.unreserve(state, pod, "n1")
			f.put(tc.told...)
			if tc.settled {
				for _, u := range f.open {
					if released, err := f.ledger.Settle(u); err != nil || !released {
						t.Errorf("Settle: %v %v", released, err)
					}
				}
			}
			f.wantUsed("in the end", "n1", "pool-ssd", tc.used)
			if open := len(f.ledger.holders) > 0; open != (tc.used > 0 && tc.seen == nil && tc.told == nil) {
				t.Errorf("still held: %v", f.ledger.holders)
			}
		})
	}
}

// An answer is about the cycles that had ended when the question was put.
func TestSettle_LeavesLaterCyclesAlone(t *testing.T) {
	a := makeClaim("a", "ssd", 6*gib)
	one, two := makePod("one").claiming("a"), makePod("two").claiming("a")
	f := newFixture(t, baseObjects(a)...)
	stateOne := f.reserve(one, "n1")
	f.permit(stateOne, one, "n1")
	stateTwo := f.reserve(two, "n1")
	f.permit(stateTwo, two, "n1")
	f.unreserve(stateOne, one, "n1")
	asked := f.open[0]
	f.unreserve(stateTwo, two, "n1") // it may have written after the question
	if _, err := f.ledger.Settle(asked); err != nil {
		t.Fatal(err)
	}
	f.wantUsed("one is settled", "n1", "pool-ssd", 6*gib)
	if _, err := f.ledger.Settle(f.open[1]); err != nil {
		t.Fatal(err)
	}
	f.wantUsed("both are settled", "n1", "pool-ssd", 0)
}

// The pod is deleted, and its claim with it, while the provisioner is at work.
func TestClaimDeletedWhileItsVolumeIsMade_StaysChargedUntilTheVolumeComesOrTheAPISaysNone(t *testing.T) {
	a := makeClaim("a", "ssd", 6*gib)
	volume := makeVolume("pvc-uid-a", "pool-ssd", "n1", 6*gib).of(a).phase(v1.VolumeReleased)
	for _, comes := range []bool{true, false} {
		f := newFixture(t, baseObjects(a.selected("n1"))...)
		f.remove(a)
		f.wantUsed("claim deleted", "n1", "pool-ssd", 6*gib)
		if comes {
			f.put(volume)
			f.wantUsed("volume came", "n1", "pool-ssd", 6*gib)
			f.remove(volume)
		} else if released, err := f.ledger.Settle(f.open[0]); err != nil || !released {
			t.Errorf("Settle: %v %v", released, err)
		}
		f.wantUsed("all over", "n1", "pool-ssd", 0)
		if n := len(f.ledger.entries); n != 0 {
			t.Errorf("%d entries are left", n)
		}
	}
}

// A node that was overdrawn meanwhile takes no pod on the strength of an old reservation.
func TestReserve_RetryOnAnOverdrawnNodeIsRefused(t *testing.T) {
	c := makeClaim("c", "ssd", 4*gib)
	pod := makePod("p").claiming("c")
	f := newFixture(t, baseObjects(c)...)
	state := f.reserve(pod, "n1")
	f.permit(state, pod, "n1")
	f.unreserve(state, pod, "n1") // may have written: stays charged
	if !f.accepted(pod)["n1"] {
		t.Error("the reservation is its own")
	}
	f.put(makeNode("n1", "pool-ssd", 3*gib))
	if f.accepted(pod)["n1"] {
		t.Error("the pool has shrunk below what is charged")
	}
}

// kubernetes/kubernetes#126499: the scheduler restarts between the claim's
// selected-node and the pod's binding.
func TestRestart_PlacedReplicaKeepsItsNode(t *testing.T) {
	first, second := makeClaim("first", "ssd", 10*gib), makeClaim("second", "ssd", 10*gib)
	f := newFixture(t, baseObjects(first.selected("n1"), second)...)
	f.restart()
	if got := f.accepted(makePod("p2").claiming("second")); got["n1"] || !got["n2"] {
		t.Errorf("second replica: %v", got)
	}
	if got := f.accepted(makePod("p1").claiming("first")); !got["n1"] || got["n2"] {
		t.Errorf("first replica: %v", got)
	}
}

func TestRestart_ForgetsOnlyWhatIsNotInTheAPI(t *testing.T) {
	reserved, selected, bound, static := makeClaim("r", "ssd", gib), makeClaim("s", "ssd", gib), makeClaim("b", "ssd", gib), makeVolume("st", "pool-ssd", "n1", gib)
	f := newFixture(t, baseObjects(reserved, selected.selected("n1"), bound.bound("v"), makeVolume("v", "pool-ssd", "n1", gib).of(bound), static,
		makePod("i").inline("pool-ssd", gib).on("n1"))...)
	f.wantUsed("without reservation", "n1", "pool-ssd", 4*gib)
	want := f.ledger.books()
	f.reserve(makePod("p").claiming("r"), "n1")
	f.wantUsed("with reservation", "n1", "pool-ssd", 5*gib)
	f.restart()
	if got := f.ledger.books(); !maps.Equal(got, want) {
		t.Errorf("books built anew are %v, want %v", got, want)
	}
}

// kubernetes/kubernetes#93830: one tenant's broken claim.
func TestFilter_BrokenClaimOfAnotherPodConcernsNobody(t *testing.T) {
	lost := makeClaim("lost", "ssd", gib).bound("gone").phase(v1.ClaimLost)
	f := newFixture(t, baseObjects(lost, makePod("broken").claiming("lost", "missing").on("n1"), makeClaim("c", "ssd", 10*gib))...)
	if got := f.accepted(makePod("p").claiming("c")); !got["n1"] || !got["n2"] {
		t.Errorf("accepted: %v", got)
	}
}

// rancher/local-path-provisioner#533: a claim is deleted and made anew under its name.
func TestClaimMadeAnew_IsAnotherEntry(t *testing.T) {
	old := makeClaim("c", "ssd", 6*gib)
	f := newFixture(t, baseObjects(old)...)
	f.put(makeClaim("c", "ssd", 2*gib).uid("new").selected("n2"))
	f.wantUsed("old", "n1", "pool-ssd", 0)
	f.wantUsed("new", "n2", "pool-ssd", 2*gib)
	if _, ok := f.ledger.entries[claimKey(old.UID)]; ok {
		t.Error("the old claim is still there")
	}
}

// deckhouse/sds-node-configurator#279: the phase lags behind; volumeName decides.
func TestPreFilter_ClaimPhaseDecidesNothing(t *testing.T) {
	for _, phase := range []v1.PersistentVolumeClaimPhase{"", v1.ClaimPending, v1.ClaimBound} {
		for _, selected := range []bool{false, true} {
			for _, bound := range []bool{false, true} {
				c := makeClaim("c", "ssd", 6*gib)
				if selected {
					c = c.selected("n1")
				}
				objects := []metav1.Object{}
				if bound {
					c = c.bound("v")
					objects = append(objects, makeVolume("v", "pool-ssd", "n1", 6*gib).of(c))
				}
				f := newFixture(t, append(objects, ssdNode("n1"), makeCSINode("n1"), makeNode("n2", "pool-hdd", 10*gib), makeCSINode("n2"), makeClass("ssd", "pool-ssd"), c.phase(phase))...)
				got := f.accepted(makePod("p").claiming("c"))
				if !got["n1"] || got["n2"] != bound {
					t.Errorf("phase %q selected %v bound %v: accepted %v", phase, selected, bound, got)
				}
				want := int64(0)
				if selected || bound {
					want = 6 * gib
				}
				f.wantUsed(string(phase), "n1", "pool-ssd", want)
			}
		}
	}
}

func TestBound_EndsReservationsButInlineStaysUntilSeen(t *testing.T) {
	c := makeClaim("c", "ssd", gib)
	pod := makePod("p").claiming("c").inline("pool-ssd", 2*gib)
	f := newFixture(t, baseObjects(c, pod)...)
	state := f.reserve(pod, "n1")
	f.permit(state, pod, "n1")
	f.put(c.selected("n1").bound("v"), makeVolume("v", "pool-ssd", "n1", gib).of(c))
	f.plugin.PostBind(context.Background(), state, pod.Pod, "n1")
	f.wantUsed("bound", "n1", "pool-ssd", 3*gib)
	f.put(pod.on("n1"))
	if len(f.ledger.holders) > 0 {
		t.Errorf("still held: %v", f.ledger.holders)
	}
	f.wantUsed("seen", "n1", "pool-ssd", 3*gib)
	f.remove(pod.on("n1"))
	f.wantUsed("gone", "n1", "pool-ssd", gib)
}

func TestBound_InlineReservationGoesWithAPodThatIsNeverSeenOnItsNode(t *testing.T) {
	pod := makePod("p").inline("pool-ssd", 2*gib)
	f := newFixture(t, baseObjects(pod)...)
	state := f.reserve(pod, "n1")
	f.plugin.PostBind(context.Background(), state, pod.Pod, "n1")
	again := pod.copied()
	again.UID = "another"
	f.put(again) // deleted and made anew before the ledger saw the deletion
	f.wantUsed("in the end", "n1", "pool-ssd", 0)
}

// What a pod wants is looked up once a cycle; its claim's entry may be another by
// the time that the pod is judged.
func TestFits_ByTheBooksAsTheyAreNow(t *testing.T) {
	c := makeClaim("c", "ssd", 6*gib)
	f := newFixture(t, baseObjects(c)...)
	wants, _, err := f.ledger.Wants(makePod("p").claiming("c").Pod)
	must(t, err)
	f.remove(c)
	f.put(c.selected("n1"))
	if short, ok := f.ledger.Fits("n1", wants); !ok {
		t.Errorf("the claim is charged to the node already: %s", short)
	}
	if _, ok := f.ledger.Fits("n2", wants); ok {
		t.Error("the claim names another node")
	}
}
