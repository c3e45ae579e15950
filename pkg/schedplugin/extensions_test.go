package schedplugin

import (
	"context"
	"fmt"
	"math"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-scheduler/framework"
)

func TestFilter_PreemptionIsTriedOnlyWhereItCanHelp(t *testing.T) {
	kept := makeClaim("kept", "ssd", 6*gib).bound("v")
	volume := makeVolume("v", "pool-ssd", "n1", 6*gib).of(kept)
	for _, tc := range []struct {
		name    string
		objects []metav1.Object
		want    framework.Code
	}{
		{"volumes that stay", []metav1.Object{kept, volume}, framework.UnschedulableAndUnresolvable},
		{"an inline volume that is large enough", []metav1.Object{makePod("r").inline("pool-ssd", 6*gib).on("n1")}, framework.Unschedulable},
		{"an inline volume that is too small", []metav1.Object{kept, volume, makePod("r").inline("pool-ssd", gib/2).on("n1")}, framework.UnschedulableAndUnresolvable},
		{"an ephemeral volume", []metav1.Object{
			makeClaim("r-e", "ssd", 6*gib).ownedBy(makePod("r").Pod).bound("v2"),
			makeVolume("v2", "pool-ssd", "n1", 6*gib).of(makeClaim("r-e", "ssd", 6*gib))}, framework.Unschedulable},
		{"no annotation", []metav1.Object{makeNode("n1")}, framework.UnschedulableAndUnresolvable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, append(baseObjects(makeClaim("c", "ssd", 5*gib)), tc.objects...)...)
			_, statuses, refused := f.filter(makePod("p").claiming("c"))
			if !refused.IsSuccess() {
				t.Fatal(refused)
			}
			if got := statuses["n1"].Code(); got != tc.want {
				t.Errorf("n1: %v %q, want %v", got, statuses["n1"].Message(), tc.want)
			}
		})
	}
}

func TestAddRemovePod_WhatIf(t *testing.T) {
	ctx := context.Background()
	victim := makePod("victim").inline("pool-ssd", 4*gib).ephemeral("e").on("n1")
	ephemeral := makeClaim("victim-e", "ssd", 4*gib).ownedBy(victim.Pod).bound("v")
	nominated := makePod("nominated").claiming("n")
	f := newFixture(t, baseObjects(victim, ephemeral, makeVolume("v", "pool-ssd", "n1", 4*gib).of(ephemeral),
		makeClaim("c", "ssd", 6*gib), makeClaim("n", "ssd", 6*gib))...)
	pod := makePod("p").claiming("c")
	state, _, _ := f.filter(pod)
	clone := state.Clone().(*fakeState)
	info := nodeInfo(ssdNode("n1"))
	fits := func(s *fakeState) bool { return f.plugin.Filter(ctx, s, pod.Pod, info).IsSuccess() }
	step := func(what string, status *framework.Status, want bool) {
		t.Helper()
		if !status.IsSuccess() {
			t.Fatalf("%s: %v", what, status)
		}
		if got := fits(clone); got != want {
			t.Errorf("%s: fits %v, want %v", what, got, want)
		}
	}
	step("as it is", nil, false)
	step("victim gone", f.plugin.RemovePod(ctx, clone, pod.Pod, fakePodInfo{pod: victim.Pod}, info), true)
	step("victim spared", f.plugin.AddPod(ctx, clone, pod.Pod, fakePodInfo{pod: victim.Pod}, info), false)
	step("victim gone again", f.plugin.RemovePod(ctx, clone, pod.Pod, fakePodInfo{pod: victim.Pod}, info), true)
	step("nominated pod comes", f.plugin.AddPod(ctx, clone, pod.Pod, fakePodInfo{pod: nominated.Pod}, info), false)
	step("a pod without volumes", f.plugin.AddPod(ctx, clone, pod.Pod, fakePodInfo{pod: makePod("x").Pod}, info), false)
	if s := stateOf(state); len(s.what) != 0 || fits(state) {
		t.Errorf("the original state was changed: %v", s.what)
	}
}

func TestAddPod_NominatedPodWithTheSameClaimTakesNothingMore(t *testing.T) {
	f := newFixture(t, baseObjects(makeClaim("c", "ssd", 10*gib))...)
	pod := makePod("p").claiming("c")
	state, _, _ := f.filter(pod)
	info := nodeInfo(ssdNode("n1"))
	if status := f.plugin.AddPod(context.Background(), state, pod.Pod, fakePodInfo{pod: makePod("q").claiming("c").Pod}, info); !status.IsSuccess() {
		t.Fatal(status)
	}
	if status := f.plugin.Filter(context.Background(), state, pod.Pod, info); !status.IsSuccess() {
		t.Errorf("refused: %v", status)
	}
}

// NodeVolumeLimits does not see inline volumes.
func TestFilter_CountsInlineVolumesAgainstCSINode(t *testing.T) {
	bound := makeClaim("b", "ssd", gib).bound("v")
	volume := makeVolume("v", "pool-ssd", "n1", gib).of(bound)
	inline := makePod("i").inline("pool-ssd", gib).on("n1")
	user := makePod("u").claiming("b").on("n1")
	for _, tc := range []struct {
		name  string
		limit int32
		there []metav1.Object
		pod   podBuilder
		want  bool
	}{
		{"two of two", 2, []metav1.Object{inline}, makePod("p").inline("pool-ssd", gib), true},
		{"inline counts", 1, []metav1.Object{inline}, makePod("p").inline("pool-ssd", gib), false},
		{"inline and claims together", 2, []metav1.Object{inline, user}, makePod("p").inline("pool-ssd", gib), false},
		{"a new claim beside inline volumes", 1, []metav1.Object{inline}, makePod("p").claiming("c"), false},
		{"a bound claim beside inline volumes", 1, []metav1.Object{inline}, makePod("p").claiming("b"), false},
		{"a claim that is there already", 2, []metav1.Object{inline, user}, makePod("p").claiming("b"), true},
		{"claims alone are left to NodeVolumeLimits", 1, []metav1.Object{user}, makePod("p").claiming("c"), true},
		{"volumes that no pod uses do not count", 1, nil, makePod("p").inline("pool-ssd", gib), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, append([]metav1.Object{ssdNode("n1"), makeCSINode("n1", tc.limit), makeClass("ssd", "pool-ssd"), bound, volume, makeClaim("c", "ssd", gib)}, tc.there...)...)
			if got := f.accepted(tc.pod)["n1"]; got != tc.want {
				t.Errorf("accepted %v, want %v", got, tc.want)
			}
		})
	}
}

func TestPreFilter_SkipsWhatItHasNoSayIn(t *testing.T) {
	f := newFixture(t, baseObjects(makeClaim("c", "ssd", gib))...)
	for name, pod := range map[string]podBuilder{
		"no volumes": makePod("p"), "a pod that has its node": makePod("p").claiming("c").on("n1"),
	} {
		state, _, refused := f.filter(pod)
		if !refused.IsSkip() {
			t.Errorf("%s: %v", name, refused)
		}
		if status := f.plugin.PreScore(context.Background(), state, pod.Pod, nil); !status.IsSkip() {
			t.Errorf("%s: PreScore %v", name, status)
		}
	}
}

func TestPreFilter_NotBeforeTheBooksAreComplete(t *testing.T) {
	f := newFixture(t, baseObjects(makeClaim("c", "ssd", gib))...)
	f.plugin.drivers[0].synced.Store(false)
	f.plugin.drivers[0].feeds = append(f.plugin.drivers[0].feeds, fakeFeed{synced: false})
	pod := makePod("p").claiming("c")
	if _, _, refused := f.filter(pod); refused.Code() != framework.Unschedulable {
		t.Errorf("not synced: %v", refused)
	}
	if _, _, refused := f.filter(makePod("q")); !refused.IsSkip() {
		t.Errorf("a pod without volumes: %v", refused)
	}
	f.plugin.drivers[0].feeds[0] = fakeFeed{synced: true}
	if _, _, refused := f.filter(pod); !refused.IsSuccess() {
		t.Errorf("synced: %v", refused)
	}
}

func TestSignPod_OnlyPodsWithoutOurVolumesAreAlike(t *testing.T) {
	f := newFixture(t)
	for _, tc := range []struct {
		pod  podBuilder
		code framework.Code
	}{
		{makePod("p"), framework.Success},
		{otherInline(makePod("p").inline("x", gib)), framework.Success},
		{makePod("p").inline("x", gib), framework.Unschedulable},
		{makePod("p").claiming("c"), framework.Unschedulable},
		{makePod("p").ephemeral("e"), framework.Unschedulable},
	} {
		fragments, status := f.plugin.SignPod(context.Background(), tc.pod.Pod)
		if status.Code() != tc.code || len(fragments) > 0 {
			t.Errorf("%v: %v %v", tc.pod.Spec.Volumes, status.Code(), fragments)
		}
	}
}

func TestScore_SpreadAndPack(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, append(baseObjects(makeClaim("c", "ssd", 2*gib), makeClaim("x", "ssd", 4*gib).selected("n2")),
		makeNode("n3", "pool-ssd", 2*gib), makeCSINode("n3"))...)
	pod := makePod("p").claiming("c")
	state, _, _ := f.filter(pod)
	scores := func(strategy ScoringStrategyType) map[string]int64 {
		f.plugin.strategy = strategy
		var list framework.NodeScoreList
		for _, n := range f.nodes() {
			score, status := f.plugin.Score(ctx, state, pod.Pod, n)
			if !status.IsSuccess() {
				t.Fatal(status)
			}
			list = append(list, framework.NodeScore{Name: n.node.Name, Score: score})
		}
		if status := f.plugin.ScoreExtensions().NormalizeScore(ctx, state, pod.Pod, list); !status.IsSuccess() {
			t.Fatal(status)
		}
		out := map[string]int64{}
		for _, s := range list {
			out[s.Name] = s.Score
		}
		return out
	}
	// left after placing: n1 8 GiB, n2 4 GiB, n3 0
	if got := scores(Spread); got["n1"] != 100 || got["n2"] != 50 || got["n3"] != 0 {
		t.Errorf("Spread: %v", got)
	}
	if got := scores(Pack); got["n1"] != 0 || got["n2"] != 50 || got["n3"] != 100 {
		t.Errorf("Pack: %v", got)
	}
}

func TestNormalize_HugeAndEmpty(t *testing.T) {
	list := framework.NodeScoreList{{Name: "a", Score: math.MaxInt64}, {Name: "b", Score: 0}}
	normalize(Spread, list)
	if list[0].Score != framework.MaxScore || list[1].Score != framework.MinScore {
		t.Errorf("huge: %v", list)
	}
	list = framework.NodeScoreList{{Name: "a"}, {Name: "b"}}
	normalize(Pack, list)
	if list[0].Score != list[1].Score {
		t.Errorf("all empty: %v", list)
	}
}

func TestScore_WeighsPools(t *testing.T) {
	f := newFixture(t, makeNode("n1", "fast", 10*gib, "slow", 100*gib), makeCSINode("n1"), makeClass("f", "fast"), makeClass("s", "slow"),
		makeClaim("a", "f", gib), makeClaim("b", "s", gib))
	f.plugin.weights = map[string]int64{"fast": 10}
	pod := makePod("p").claiming("a", "b")
	state, _, _ := f.filter(pod)
	score, status := f.plugin.Score(context.Background(), state, pod.Pod, f.nodes()[0])
	if want := (10*9*gib + 99*gib) / scoreUnitBytes; !status.IsSuccess() || score != want {
		t.Errorf("score %d, want %d", score, want)
	}
}

// What an earlier scheduler did: it looked for the class of a provisioner,
// ended with whichever came last, and counted that one's volumes.
func TestIncident_TwoClassesOnOnePoolWithVolumesReleased(t *testing.T) {
	objects := []metav1.Object{makeNode("n1", "pool-ssd", 900*gib), makeCSINode("n1"), makeClass("local-a", "pool-ssd"), makeClass("local-b", "pool-ssd"), makeClaim("c", "local-b", 50*gib)}
	f := newFixture(t, objects...)
	var released []metav1.Object
	for i := range 18 {
		c := makeClaim("stress-"+string(rune('a'+i)), []string{"local-a", "local-b"}[i%2], 50*gib)
		v := makeVolume("v-"+c.Name, "pool-ssd", "n1", 50*gib).of(c)
		f.put(c.selected("n1"), v, c.selected("n1").bound(v.Name))
		released = append(released, c, v.phase(v1.VolumeReleased))
	}
	f.wantUsed("18 volumes", "n1", "pool-ssd", 900*gib)
	for i := 0; i < len(released); i += 2 { // the stress pods and their claims are deleted
		f.remove(released[i])
		f.put(released[i+1])
		f.wantUsed("claims go, volumes stay", "n1", "pool-ssd", 900*gib)
	}
	f.remove(makeClass("local-a", "pool-ssd"))
	f.wantUsed("one class deleted", "n1", "pool-ssd", 900*gib)
	if got := f.accepted(makePod("p").claiming("c")); got["n1"] {
		t.Error("the node is full, and the pod was let in")
	}
	f.remove(released[1])
	if got := f.accepted(makePod("p").claiming("c")); !got["n1"] {
		t.Error("a volume is gone, and the pod was not let in")
	}
}

// fakeFeed is a handler's registration.
type fakeFeed struct {
	cache.ResourceEventHandlerRegistration
	synced bool
}

func (f fakeFeed) HasSynced() bool { return f.synced }

// The scheduler writes into the statuses it is given, those of many nodes at once.
func TestFilter_EveryNodeHasAStatusOfItsOwn(t *testing.T) {
	f := newFixture(t, baseObjects(makeClaim("c", "ssd", 100*gib))...)
	_, statuses, _ := f.filter(makePod("p").claiming("c"))
	statuses["n1"].SetPlugin("x")
	statuses["n1"].AppendReason("y")
	if s := statuses["n2"]; s == statuses["n1"] || s.Plugin() != "" || s.Message() != ReasonInsufficientCapacity.String() {
		t.Errorf("one status is part of the other: %+v", s)
	}
}

func TestFilter_Allocates(t *testing.T) {
	objects := []metav1.Object{makeClass("ssd", "pool-ssd"), makeClaim("fits", "ssd", gib), makeClaim("huge", "ssd", 100*gib)}
	for i := range 1000 {
		name := fmt.Sprintf("n%d", i)
		node := reporting(ssdNode(name), `{"extentSizes":{"pool-ssd":"8388608"},"filesystems":{"pool-ssd":"xfs"}}`)
		objects = append(objects, node, makeCSINode(name, 100))
	}
	f := newFixture(t, objects...)
	nodes := f.nodes()
	for claim, most := range map[string]float64{"fits": 0, "huge": 0.05} {
		pod := makePod("p").claiming(claim)
		state, _, _ := filterAll(t.Context(), f.plugin, pod.Pod)
		perPass := testing.AllocsPerRun(5, func() {
			for _, n := range nodes {
				f.plugin.Filter(context.Background(), state, pod.Pod, n)
			}
		})
		if perNode := perPass / float64(len(nodes)); perNode > most {
			t.Errorf("%s: %v allocations for each node, want at most %v", claim, perNode, most)
		}
	}
}
