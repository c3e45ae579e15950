package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/pkg/capacity"
)

func TestHopeless(t *testing.T) {
	type class = *storagev1.StorageClass
	type claim = *v1.PersistentVolumeClaim
	immediate := storagev1.VolumeBindingImmediate
	nodes := func(pools ...string) []string { return pools }
	for _, tt := range []struct {
		name   string
		class  func(class)
		claim  func(claim)
		nodes  []string // what they publish
		reason string   // of the only finding, empty for none
		says   []string
	}{
		{name: "well", nodes: nodes(`{"pool-ssd":"0"}`)},
		{name: "binding mode Immediate", class: func(c class) { c.VolumeBindingMode = &immediate }, reason: ReasonImmediateBinding, says: []string{"StorageClass ssd", "volumeBindingMode: WaitForFirstConsumer"}},
		{name: "no binding mode, which means Immediate", class: func(c class) { c.VolumeBindingMode = nil }, reason: ReasonImmediateBinding},
		{name: "misspelt parameter", class: func(c class) { c.Parameters = map[string]string{"pol": "pool-ssd"} }, reason: ReasonInvalidParameters, says: []string{`"pol"`, "pool"}},
		{name: "no parameters", class: func(c class) { c.Parameters = nil }, reason: ReasonInvalidParameters, says: []string{"pool"}},
		{name: "several wrong parameters in one line", class: func(c class) { c.Parameters["layout"], c.Parameters["x"] = "cube", "y" }, reason: ReasonInvalidParameters, says: []string{"cube", `"x"`, "; "}},
		{name: "unknown pool", nodes: nodes(`{"pool-hdd":"1"}`, `{"pool-nvme":"1"}`), reason: ReasonUnknownPool, says: []string{`pool "pool-ssd"`, "There are: pool-hdd, pool-nvme.", "pools file"}},
		{name: "misspelt pool", class: func(c class) { c.Parameters[capacity.ParamPool] = "pool-sd" }, nodes: nodes(`{"pool-ssd":"1"}`), reason: ReasonUnknownPool, says: []string{"(pool-ssd is meant?)"}},
		{name: "pool on one of the nodes", nodes: nodes(`{"pool-hdd":"1"}`, `{"pool-ssd":"1"}`)},
		{name: "pool whose figure cannot be read", nodes: nodes(`{"pool-ssd":"x"}`)},
		{name: "nobody publishes", nodes: nil},
		{name: "nothing published can be read", nodes: nodes("x")},
		{name: "some of it cannot be read", nodes: nodes("x", `{"pool-hdd":"1"}`), reason: ReasonUnknownPool, says: []string{"what 1 nodes publish cannot be read"}},
		{name: "a node that lost all pools", nodes: nodes(`{}`), reason: ReasonUnknownPool, says: []string{"There are: none"}},
		{name: "many pools", nodes: nodes(`{"a":"1","b":"1","c":"1","d":"1","e":"1","f":"1","g":"1","h":"1","i":"1","j":"1"}`), reason: ReasonUnknownPool, says: []string{"a, b, c, d, e, f, g, h and 2 more"}},
		{name: "several nodes", claim: func(c claim) {
			c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadWriteMany}
		}, reason: ReasonUnsupportedAccessMode, says: []string{"access mode ReadWriteMany", "ReadWriteOncePod"}},
		{name: "read by several nodes", claim: func(c claim) { c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany} }, reason: ReasonUnsupportedAccessMode, says: []string{"ReadOnlyMany"}},
		{name: "one pod", claim: func(c claim) { c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod} }},
		{name: "selector", claim: func(c claim) { c.Spec.Selector = &metav1.LabelSelector{} }, reason: ReasonUnsupportedSelector, says: []string{"without the selector"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			book := newNodeBook(testDriver)
			for i, pools := range tt.nodes {
				book.set(&metav1.ObjectMeta{Name: strings.Repeat("n", i+1), Annotations: map[string]string{capacity.PoolsAnnotation(testDriver): pools}})
			}
			class, claim := makeClass(""), makeClaim("c")
			if tt.class != nil {
				tt.class(class)
			}
			if tt.claim != nil {
				tt.claim(claim)
			}
			found := hopeless(claim, class, book)
			if tt.reason == "" {
				if len(found) > 0 {
					t.Errorf("found %+v, want nothing", found)
				}
				return
			}
			if len(found) != 1 || found[0].reason != tt.reason {
				t.Fatalf("found %+v, want %s", found, tt.reason)
			}
			for _, part := range tt.says {
				if !strings.Contains(found[0].message, part) {
					t.Errorf("%q does not say %q", found[0].message, part)
				}
			}
			if message := found[0].message; len(message) > 1024 || strings.Contains(message, "\n") {
				t.Errorf("no message for an event: %q", message)
			}
		})
	}
}

// claimWorld has a node, a class whose pool nobody has, and a claim.
func claimWorld(t *testing.T) *world {
	w := newWorld(t, testSettings())
	class := makeClass("")
	class.Parameters[capacity.ParamPool] = "pool-x"
	w.setClass(class)
	w.addNode("n1", `{"pool-ssd":"1"}`, nil)
	w.settle(t)
	claim := makeClaim("c")
	claim.CreationTimestamp = metav1.NewTime(w.clock.Now())
	w.addClaim(claim)
	return w
}

func hopelessClaims(w *world, reason string) float64 {
	var m dto.Metric
	if err := w.c.metrics.hopeless.WithLabelValues(reason).Write(&m); err != nil {
		return -1
	}
	return m.GetGauge().GetValue()
}

func TestHopelessClaim_EventOnceAnHour(t *testing.T) {
	w := claimWorld(t)
	w.pass(t, 9*time.Second)
	if len(w.events) > 0 {
		t.Errorf("events of a claim that is 9 s old: %q", w.events)
	}
	w.pass(t, 50*time.Minute)
	if len(w.events) != 1 {
		t.Errorf("events of the first hour: %q", w.events)
	}
	checkEvent(t, w, "Warning c UnknownPool")
	w.changeClaim("default/c", func(claim *v1.PersistentVolumeClaim) { claim.Labels = map[string]string{"a": "b"} })
	w.pass(t, 5*time.Hour)
	if len(w.events) != 6 {
		t.Errorf("%d events in six hours", len(w.events))
	}
	if got := hopelessClaims(w, ReasonUnknownPool); got != 1 {
		t.Errorf("metric %v", got)
	}
	checkWrites(t, w)
}

func TestHopelessClaim_Resolved(t *testing.T) {
	for name, happens := range map[string]func(*world){
		"a node gets the pool": func(w *world) { w.addNode("n2", `{"pool-x":"1"}`, nil) },
		"the class is made again": func(w *world) {
			w.setClass(makeClass(""))
		},
		"the claim is deleted": func(w *world) {
			w.changeClaim("default/c", func(claim *v1.PersistentVolumeClaim) { claim.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} })
		},
		"it is bound": func(w *world) {
			w.changeClaim("default/c", func(claim *v1.PersistentVolumeClaim) { claim.Spec.VolumeName = "static" })
		},
		"a volume is made for it": func(w *world) {
			v := makeVolume("v", "n1")
			v.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "c", UID: w.claims["default/c"].UID}
			w.addVolume(v)
			w.changeClaim("default/c", func(*v1.PersistentVolumeClaim) {})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := claimWorld(t)
			w.pass(t, time.Minute)
			if got := hopelessClaims(w, ReasonUnknownPool); got != 1 || len(w.events) != 1 {
				t.Fatalf("metric %v, events %q", got, w.events)
			}
			happens(w)
			w.pass(t, 3*time.Hour)
			if got := hopelessClaims(w, ReasonUnknownPool); got != 0 || len(w.events) != 1 {
				t.Errorf("metric %v, events %q", got, w.events)
			}
		})
	}
}

// A pool that goes makes claims hopeless that were not.
func TestHopelessClaim_PoolGoes(t *testing.T) {
	w := claimWorld(t)
	w.setClass(makeClass(""))
	w.pass(t, time.Hour)
	if len(w.events) > 0 {
		t.Fatalf("events %q", w.events)
	}
	w.addNode("n1", `{"pool-hdd":"1"}`, nil)
	w.settle(t)
	checkEvent(t, w, "Warning c UnknownPool", "There are: pool-hdd")
}

// A claim that is bound, and whose news has not come yet, gets no event.
func TestHopelessClaim_CachesAreBehind(t *testing.T) {
	w := claimWorld(t)
	w.deliver()
	w.claims["default/c"].Spec.VolumeName = "static"
	w.pass(t, time.Hour)
	if len(w.events) > 0 {
		t.Errorf("events %q", w.events)
	}
}

func TestHopelessClaim_OfAnotherDriver(t *testing.T) {
	w := claimWorld(t)
	class := makeClass("")
	class.Provisioner, class.Parameters = otherDriver, nil
	w.setClass(class)
	w.addClaim(withNode(makeClaim("d"), "n9"))
	w.pass(t, time.Hour)
	checkWrites(t, w)
	if len(w.events) > 0 {
		t.Errorf("events %q", w.events)
	}
}

// A claim that points at a node that is gone (sig-storage-lib-external-provisioner#121,
// rancher/local-path-provisioner#533): its provisioner is gone, too.
func TestSelectedNodeGone(t *testing.T) {
	w := newWorld(t, testSettings())
	w.setClass(makeClass(""))
	w.addNode("n1", `{"pool-ssd":"1"}`, nil)
	w.addClaim(withNode(makeClaim("on-n1"), "n1"))
	w.addClaim(withNode(makeClaim("on-n9"), "n9"))
	w.pass(t, 15*time.Minute-time.Second)
	checkWrites(t, w)
	checkEvent(t, w, "Warning on-n9 SelectedNodeGone", "missing for 15m0s", "kubectl annotate pvc -n default on-n9 volume.kubernetes.io/selected-node-")
	w.pass(t, time.Second)
	checkWrites(t, w, "clear selected node on-n9")
	checkEvent(t, w, "Normal on-n9 SelectedNodeCleared", "the scheduler chooses again")
	if got := hopelessClaims(w, ReasonSelectedNodeGone); got != 0 {
		t.Errorf("metric %v", got)
	}
	w.pass(t, 2*time.Hour)
	checkWrites(t, w, "clear selected node on-n9")
}

func TestSelectedNodeGone_LeftAlone(t *testing.T) {
	for name, happens := range map[string]func(*world){
		"the node is back": func(w *world) { w.addNode("n9", "", nil) },
		"the volume was made": func(w *world) {
			v := makeVolume(volumeNamePrefix+string(w.claims["default/c"].UID), "n9")
			v.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRetain
			w.addVolume(v)
		},
		"another node was chosen": func(w *world) { withNode(w.claims["default/c"], "n1") },
		"it was bound":            func(w *world) { w.claims["default/c"].Spec.VolumeName = "static" },
		"it is another claim":     func(w *world) { w.claims["default/c"].UID = "later" },
		"it is gone":              func(w *world) { delete(w.claims, "default/c") },
		"dry run":                 func(w *world) { w.c.settings.DryRun = true },
		"the brake holds": func(w *world) {
			w.c.settings.MaxLostNodesPercent = 1
			addInUse(w, "gone-1")
			addInUse(w, "gone-2")
			w.deliver()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, testSettings())
			w.setClass(makeClass(""))
			w.addNode("n1", `{"pool-ssd":"1"}`, nil)
			w.addClaim(withNode(makeClaim("c"), "n9"))
			w.pass(t, 14*time.Minute)
			happens(w)
			w.lagging = map[string][]func(){} // the caches do not hear of it
			w.pass(t, time.Hour)
			checkWrites(t, w)
			switch name {
			case "dry run":
				checkEvent(t, w, "SelectedNodeCleared", "Dry run, nothing is changed")
			case "the brake holds":
				checkEvent(t, w, "Warning c TooManyNodesMissing")
			}
		})
	}
}

func TestEarlier(t *testing.T) {
	for _, tt := range [][3]time.Duration{{0, 0, 0}, {0, 2, 2}, {2, 0, 2}, {2, 3, 2}, {3, 2, 2}} {
		if got := earlier(tt[0], tt[1]); got != tt[2] {
			t.Errorf("earlier(%d, %d) = %d", tt[0], tt[1], got)
		}
	}
}

func TestSettings_Validate(t *testing.T) {
	if err := DefaultSettings().Validate(); err != nil {
		t.Error(err)
	}
	err := Settings{ClaimGrace: -1}.Validate()
	if err == nil {
		t.Fatal("nothing is wrong with the zero value")
	}
	var named []string
	for _, line := range strings.Split(err.Error(), "\n") {
		name, _, _ := strings.Cut(line, ":")
		named = append(named, name)
	}
	if diff := cmp.Diff([]string{"LostNodeDelay", "MaxLostNodesPercent", "EventInterval", "ClaimGrace"}, named); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
