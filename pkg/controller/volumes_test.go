package controller

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-local/csi-local/pkg/capacity"
)

func TestNextStep(t *testing.T) {
	bound := func(v *v1.PersistentVolume) { v.Status.Phase = v1.VolumeBound }
	released := func(v *v1.PersistentVolume) { v.Status.Phase = v1.VolumeReleased }
	retain := func(v *v1.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRetain
	}
	removed := deleted(time.Unix(1, 0), "kubernetes.io/pv-protection")
	others := func(v *v1.PersistentVolume) { v.Spec.CSI.Driver = otherDriver }
	type change = func(*v1.PersistentVolume)
	for _, tt := range []struct {
		name    string
		changes []change
		claim   string // bound, stranger (another UID), other (another volume), deleted, none
		policy  LostNodePolicy
		want    step
	}{
		{"bound", []change{bound}, "bound", "", stepReport},
		{"bound, class keeps", []change{bound}, "bound", PolicyKeep, stepReport},
		{"bound, class opts in", []change{bound}, "bound", PolicyDeleteClaim, stepDeleteClaim},
		{"bound, class opts in, volume kept", []change{bound, retain}, "bound", PolicyDeleteClaim, stepDeleteClaim},
		{"bound, volume deleted, class opts in", []change{bound, removed}, "bound", PolicyDeleteClaim, stepDeleteClaim},
		{"bound, the annotation is no policy", []change{bound}, "bound", "delete", stepReport},
		{"bound, claim deleted already", []change{bound}, "deleted", PolicyDeleteClaim, stepNone},
		{"bound to a claim that is gone", []change{bound}, "none", PolicyDeleteClaim, stepNone},
		{"bound to a claim of the same name that was made later", []change{bound}, "stranger", PolicyDeleteClaim, stepNone},
		{"bound to a claim that is bound to another volume", []change{bound}, "other", PolicyDeleteClaim, stepNone},
		{"bound and deleted: its claim comes first", []change{bound, removed}, "bound", "", stepReport},
		{"released", []change{released}, "none", "", stepDeleteVolume},
		{"released and kept", []change{released, retain}, "none", PolicyDeleteClaim, stepNone},
		{"released, made by hand", []change{released, func(v *v1.PersistentVolume) { delete(v.Annotations, provisionedByAnnotation) }}, "none", "", stepNone},
		{"released and deleted", []change{released, removed}, "none", "", stepFinishDeletion},
		{"kept and deleted", []change{released, retain, removed}, "none", "", stepFinishDeletion},
		{"available and deleted", []change{removed}, "none", "", stepFinishDeletion},
		{"deleted, others' finalizers only", []change{released, removed, func(v *v1.PersistentVolume) { v.Finalizers = []string{"a.example/b"} }}, "none", "", stepNone},
		{"available", nil, "none", PolicyDeleteClaim, stepNone},
		{"failed", []change{func(v *v1.PersistentVolume) { v.Status.Phase = v1.VolumeFailed }}, "none", "", stepNone},
		{"another driver's, released", []change{released, others}, "none", "", stepNone},
		{"another driver's, deleted", []change{released, removed, others}, "none", "", stepNone},
		{"another driver's, bound", []change{bound, others}, "bound", PolicyDeleteClaim, stepNone},
		{"no CSI volume", []change{bound, func(v *v1.PersistentVolume) { v.Spec.CSI = nil }}, "bound", PolicyDeleteClaim, stepNone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, claim := makeVolume("v", "n1"), makeClaim("c")
			claim.UID = "u"
			bind(v, claim)
			v.Status.Phase = v1.VolumeAvailable
			for _, change := range tt.changes {
				change(v)
			}
			switch tt.claim {
			case "stranger":
				claim.UID = "later"
			case "other":
				claim.Spec.VolumeName = "w"
			case "deleted":
				claim.DeletionTimestamp = &v.CreationTimestamp
			case "none":
				claim = nil
			}
			if got := nextStep(testDriver, v, claim, makeClass(tt.policy)); got != tt.want {
				t.Errorf("step %v, want %v", got, tt.want)
			}
		})
	}
}

func TestPolicyOf_AnotherDriversClass(t *testing.T) {
	class := makeClass(PolicyDeleteClaim)
	class.Provisioner = otherDriver
	for _, c := range []*storagev1.StorageClass{class, nil} {
		if policy, err := policyOf(testDriver, c); policy != PolicyKeep || err != nil {
			t.Errorf("policy %s, error %v", policy, err)
		}
	}
}

// lostWorld has nodes n1 and n2, and volumes in several states on n1.
func lostWorld(t *testing.T, settings Settings, policy LostNodePolicy) *world {
	w := newWorld(t, settings)
	w.setClass(makeClass(policy))
	w.addNode("n1", `{"pool-ssd":"1"}`, nil)
	w.addNode("n2", `{"pool-ssd":"1"}`, nil)
	for _, name := range []string{"bound", "released", "deleted", "kept", "on-n2", "others"} {
		v, claim := makeVolume(name, "n1"), makeClaim("c-"+name)
		claim.Finalizers = []string{"kubernetes.io/pvc-protection"}
		w.stamp(claim)
		bind(v, claim)
		switch name {
		case "bound":
			w.addClaim(claim)
		case "released":
			v.Status.Phase = v1.VolumeReleased
		case "deleted":
			v.Status.Phase = v1.VolumeReleased
			deleted(time.Unix(1, 0))(v)
		case "kept":
			v.Status.Phase, v.Spec.PersistentVolumeReclaimPolicy = v1.VolumeReleased, v1.PersistentVolumeReclaimRetain
		case "on-n2":
			v.Status.Phase = v1.VolumeReleased
			v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] = "n2"
		case "others":
			v.Status.Phase, v.Spec.CSI.Driver = v1.VolumeReleased, otherDriver
		}
		w.addVolume(v)
	}
	w.settle(t)
	return w
}

func checkWrites(t *testing.T, w *world, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func checkEvent(t *testing.T, w *world, parts ...string) {
	t.Helper()
	for _, event := range w.events {
		missing := false
		for _, part := range parts {
			missing = missing || !strings.Contains(event, part)
		}
		if !missing {
			return
		}
	}
	t.Errorf("no event says %q; events:\n%s", parts, strings.Join(w.events, "\n"))
}

func TestLostNode_DefaultPolicy(t *testing.T) {
	w := lostWorld(t, testSettings(), "")
	w.pass(t, time.Hour)
	checkWrites(t, w)
	w.removeNode("n1")
	w.pass(t, 15*time.Minute-time.Second)
	checkWrites(t, w)
	if len(w.events) > 0 {
		t.Errorf("events before the delay is over: %q", w.events)
	}
	w.pass(t, time.Second)
	checkWrites(t, w, "remove finalizer deleted", "delete volume released", "remove finalizer released")
	for _, name := range []string{"released", "deleted"} {
		if w.volumes[name] != nil {
			t.Errorf("volume %s is still there", name)
		}
	}
	checkEvent(t, w, "Normal released LostNodeVolumeDeleted", "kept as an orphan")
	checkEvent(t, w, "Normal deleted LostNodeDeletionFinished", "Node n1 has been missing for at least 15m0s")
	checkEvent(t, w, "Warning c-bound VolumeOnLostNode", "delete the claim", "StorageClass ssd with local.example/on-lost-node=delete-claim")
}

func TestLostNode_ClassOptsIn(t *testing.T) {
	w := lostWorld(t, testSettings(), PolicyDeleteClaim)
	w.removeNode("n1")
	w.pass(t, 15*time.Minute)
	checkWrites(t, w, "delete claim c-bound", "remove finalizer deleted", "delete volume released", "remove finalizer released")
	checkEvent(t, w, "Warning c-bound LostNodeClaimDeleted", "PersistentVolume bound", "says delete-claim")
	// Its pod is gone, and so is the claim; the volume is released.
	w.writes = nil
	w.changeClaim("default/c-bound", func(claim *v1.PersistentVolumeClaim) { claim.Finalizers = nil })
	w.changeVolume("bound", func(v *v1.PersistentVolume) { v.Status.Phase = v1.VolumeReleased })
	w.settle(t)
	checkWrites(t, w, "delete volume bound", "remove finalizer bound")
}

// A class may opt in, or out, while a node is missing already.
func TestLostNode_ClassChangesItsMind(t *testing.T) {
	w := lostWorld(t, testSettings(), "")
	w.removeNode("n1")
	w.pass(t, 20*time.Minute)
	w.writes = nil
	w.setClass(makeClass(PolicyDeleteClaim))
	// The claim is deleted only if the class still says so when it comes to that.
	w.classes["ssd"] = makeClass("")
	w.settle(t)
	checkWrites(t, w)
	w.setClass(makeClass(PolicyDeleteClaim))
	w.settle(t)
	checkWrites(t, w, "delete claim c-bound")
}

func TestLostNode_UnknownPolicy(t *testing.T) {
	w := lostWorld(t, testSettings(), "remove")
	w.removeNode("n1")
	w.pass(t, 15*time.Minute)
	checkWrites(t, w, "remove finalizer deleted", "delete volume released", "remove finalizer released")
	checkEvent(t, w, "Warning ssd UnknownLostNodePolicy", `"remove"`, "keep and delete-claim")
}

func TestLostNode_DryRun(t *testing.T) {
	settings := testSettings()
	settings.DryRun = true
	w := lostWorld(t, settings, PolicyDeleteClaim)
	w.removeNode("n1")
	w.pass(t, 10*time.Hour)
	checkWrites(t, w)
	checkEvent(t, w, "c-bound LostNodeClaimDeleted", "Dry run, nothing is changed")
	checkEvent(t, w, "released LostNodeVolumeDeleted", "Dry run, nothing is changed")
	checkEvent(t, w, "deleted LostNodeDeletionFinished", "Dry run, nothing is changed")
	if most := 10 * 4; len(w.events) > most {
		t.Errorf("%d events in ten hours", len(w.events))
	}
}

// Whoever answers to the volume's host is there, and the time of a node that
// comes back begins anew.
func TestLostNode_ComesBack(t *testing.T) {
	topology := capacity.TopologyKey(testDriver)
	for _, tt := range []struct {
		name   string
		labels map[string]string
	}{
		{"n1", nil},
		{"renamed", map[string]string{v1.LabelHostname: "n1"}},
		{"renamed", map[string]string{topology: "n1"}},
	} {
		w := lostWorld(t, testSettings(), PolicyDeleteClaim)
		w.removeNode("n1")
		w.pass(t, 14*time.Minute)
		w.addNode(tt.name, "", tt.labels)
		w.pass(t, time.Hour)
		checkWrites(t, w)
		w.removeNode(tt.name)
		w.pass(t, 14*time.Minute)
		checkWrites(t, w)
		w.pass(t, time.Minute)
		if len(w.writes) == 0 {
			t.Errorf("%s %v: nothing is done when it is gone for good", tt.name, tt.labels)
		}
	}
}

// The API server has the last word: a watch may be behind.
func TestLostNode_CachesAreBehind(t *testing.T) {
	for name, happens := range map[string]func(*world){
		"the node is back":         func(w *world) { w.addNode("n1", "", nil) },
		"another node is called n": func(w *world) { w.addNode("x", "", map[string]string{v1.LabelHostname: "n1"}) },
		"the volumes are gone":     func(w *world) { clear(w.volumes); clear(w.claims) },
		"they are others now":      func(w *world) { replaceAll(w) },
		"they changed":             func(w *world) { rebindAll(w) },
		"the API server is down":   func(w *world) { w.broken = func(string) error { return errors.New("down") } },
		"writes fail": func(w *world) {
			w.broken = func(verb string) error {
				if strings.HasPrefix(verb, "get ") {
					return nil
				}
				return errors.New("down")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := lostWorld(t, testSettings(), PolicyDeleteClaim)
			w.removeNode("n1")
			w.pass(t, 15*time.Minute-time.Second)
			happens(w)
			w.lagging = map[string][]func(){}
			w.pass(t, 10*time.Minute)
			checkWrites(t, w)
		})
	}
}

// replaceAll gives every volume and claim another UID.
func replaceAll(w *world) {
	for _, v := range w.volumes {
		v.UID += "-later"
	}
	for _, claim := range w.claims {
		claim.UID += "-later"
	}
}

// rebindAll lets no volume be what it was.
func rebindAll(w *world) {
	for name := range w.volumes {
		w.changeVolume(name, func(v *v1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy, v.Status.Phase = v1.PersistentVolumeReclaimRetain, v1.VolumeAvailable
			v.DeletionTimestamp = nil
		})
	}
}

// One volume that fails for ever holds up no other.
func TestLostNode_EachVolumeForItself(t *testing.T) {
	w := lostWorld(t, testSettings(), "")
	failures := 0
	w.broken = func(verb string) error {
		if verb == "delete volume" {
			failures++
			return errors.New("down")
		}
		return nil
	}
	w.removeNode("n1")
	w.pass(t, 16*time.Minute)
	checkWrites(t, w, "remove finalizer deleted")
	if failures < 2 {
		t.Errorf("tried %d times", failures)
	}
	w.broken = nil
	w.pass(t, time.Minute)
	checkWrites(t, w, "remove finalizer deleted", "delete volume released", "remove finalizer released")
}

// A volume that is deleted long after the node went has waited long enough.
func TestLostNode_TimeCountsFromTheNode(t *testing.T) {
	w := lostWorld(t, testSettings(), "")
	w.removeNode("n1")
	w.pass(t, time.Hour)
	w.writes = nil
	w.changeVolume("kept", deleted(time.Unix(1, 0)))
	w.settle(t)
	checkWrites(t, w, "remove finalizer kept")
}

func TestLostNode_FoundMissingAtStart(t *testing.T) {
	w := newWorld(t, testSettings())
	v := makeVolume("v", "n1")
	v.Status.Phase = v1.VolumeReleased
	w.addVolume(v)
	w.pass(t, 15*time.Minute-time.Second)
	checkWrites(t, w)
	w.pass(t, time.Second)
	checkWrites(t, w, "delete volume v", "remove finalizer v")
}

// What nothing names any more takes no memory.
func TestLostNode_Forgotten(t *testing.T) {
	w := newWorld(t, testSettings())
	v := makeVolume("v", "n1")
	v.Status.Phase = v1.VolumeReleased
	w.addVolume(v)
	w.addClaim(withNode(makeClaim("c"), "n2"))
	w.setClass(makeClass(""))
	w.pass(t, time.Second)
	if got := w.c.nodes.missingHosts(); cmp.Diff([]string{"n1", "n2"}, got) != "" {
		t.Errorf("missing %q", got)
	}
	w.pass(t, time.Hour)
	if got := w.c.nodes.missingHosts(); len(got) > 0 {
		t.Errorf("missing %q", got)
	}
}
