package controller

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// simulation is a world in which anything happens in any order, and the truth
// that every write is held to.
type simulation struct {
	*world
	t *rapid.T
	// goneSince is when the news came that a node is gone, by host. A node that
	// comes and goes before the first news arrives was never back for the controller.
	goneSince map[string]time.Time
	hosts     []string
	serial    int
	down      bool
}

func newSimulation(t *rapid.T) *simulation {
	settings := DefaultSettings()
	settings.DryRun = rapid.IntRange(0, 4).Draw(t, "dryRun") == 0
	settings.MaxLostNodesPercent = rapid.SampledFrom([]int{30, 60, 100}).Draw(t, "percent")
	s := &simulation{world: newWorld(t, settings), t: t, goneSince: map[string]time.Time{}, hosts: []string{"n0", "n1", "n2", "n3", "n4"}}
	for _, host := range s.hosts {
		s.addNode(host, `{"pool-ssd":"1"}`, nil)
		s.addBound(host)
		s.addBound(host)
	}
	s.setClass(makeClass(PolicyDeleteClaim))
	s.deliver()
	s.onWrite = s.check
	s.broken = func(string) error {
		if s.down {
			return errors.New("down")
		}
		return nil
	}
	return s
}

// check holds a write to what the API server knows at that moment.
func (s *simulation) check(verb string, object metav1.Object) {
	if s.c.settings.DryRun {
		s.t.Fatalf("%s %s in a dry run", verb, object.GetName())
	}
	if missing, allowed := s.missingInCaches(); missing > allowed {
		s.t.Fatalf("%s %s with %d nodes missing and %d allowed", verb, object.GetName(), missing, allowed)
	}
	var host string
	switch object := object.(type) {
	case *v1.PersistentVolume:
		host = s.c.hostOf(object)
		s.checkVolume(verb, object)
	case *v1.PersistentVolumeClaim:
		host = selectedNode(object)
		if verb == "delete claim" {
			v := s.volumes[object.Spec.VolumeName]
			host = s.c.hostOf(v)
			if s.classes["ssd"].Annotations[LostNodeAnnotation(testDriver)] != string(PolicyDeleteClaim) || v.Spec.CSI.Driver != testDriver || v.Spec.ClaimRef.UID != object.UID {
				s.t.Fatalf("claim %s is deleted, and should not be", object.Name)
			}
		} else if object.Spec.VolumeName != "" {
			s.t.Fatalf("the node of claim %s is taken back though it is bound", object.Name)
		}
	}
	since, gone := s.goneSince[host]
	if !gone || s.nodes[host] != nil {
		s.t.Fatalf("%s %s: node %s is there", verb, object.GetName(), host)
	}
	if waited := s.clock.Since(since); waited < s.c.settings.LostNodeDelay {
		s.t.Fatalf("%s %s: node %s has been missing for %v only", verb, object.GetName(), host, waited)
	}
}

func (s *simulation) checkVolume(verb string, v *v1.PersistentVolume) {
	if v.Spec.CSI.Driver != testDriver || v.Status.Phase == v1.VolumeBound {
		s.t.Fatalf("%s %s: another driver's, or bound", verb, v.Name)
	}
	switch verb {
	case "delete volume":
		if v.Status.Phase != v1.VolumeReleased || v.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimDelete {
			s.t.Fatalf("volume %s is deleted: %s, %s", v.Name, v.Status.Phase, v.Spec.PersistentVolumeReclaimPolicy)
		}
	case "remove finalizer":
		if v.DeletionTimestamp == nil {
			s.t.Fatalf("volume %s was not deleted", v.Name)
		}
	}
}

// missingInCaches counts anew, another way than the brake does.
func (s *simulation) missingInCaches() (missing, allowed int) {
	used := map[string]bool{}
	for _, object := range s.c.volumes.List() {
		v := object.(*v1.PersistentVolume)
		kept := v.Status.Phase != v1.VolumeBound && v.DeletionTimestamp == nil && v.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimRetain
		if v.Spec.CSI.Driver == testDriver && !kept {
			used[s.c.hostOf(v)] = true
		}
	}
	known := 0
	for _, host := range s.hosts {
		_, present := s.c.nodes.nodes[host]
		if !present && used[host] {
			missing++
		}
		if present || used[host] {
			known++
		}
	}
	return missing, max(1, known*s.c.settings.MaxLostNodesPercent/100)
}

func (s *simulation) anyHost() string { return rapid.SampledFrom(s.hosts).Draw(s.t, "host") }

func pick[T any](t *rapid.T, objects map[string]T) (T, bool) {
	if len(objects) == 0 {
		var none T
		return none, false
	}
	return objects[rapid.SampledFrom(slices.Sorted(maps.Keys(objects))).Draw(t, "object")], true
}

func (s *simulation) name(prefix string) string {
	s.serial++
	return prefix + "-" + string(rune('a'+s.serial%26)) + strings.Repeat("x", s.serial/26)
}

// actions are everything that may happen.
func (s *simulation) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"node goes or comes": func(*rapid.T) { s.toggleNode(s.anyHost()) },
		"bound volume":       func(*rapid.T) { s.addBound(s.anyHost()) },
		"claim with a node":  func(*rapid.T) { s.addClaim(withNode(makeClaim(s.name("c")), s.anyHost())) },
		"user deletes a claim": func(t *rapid.T) {
			if claim, some := pick(t, s.claims); some {
				s.changeClaim(claimKey(claim.Namespace, claim.Name), func(c *v1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} })
			}
		},
		"user deletes a volume": func(t *rapid.T) {
			if v, some := pick(t, s.volumes); some && v.DeletionTimestamp == nil {
				s.changeVolume(v.Name, deleted(time.Unix(1, 0), "kubernetes.io/pv-protection"))
			}
		},
		"controller manager works": func(*rapid.T) { s.manage() },
		"class changes its policy": func(t *rapid.T) {
			s.setClass(makeClass(rapid.SampledFrom([]LostNodePolicy{"", PolicyKeep, PolicyDeleteClaim, "nonsense"}).Draw(t, "policy")))
		},
		"API server goes or comes": func(*rapid.T) { s.down = !s.down },
		"an event arrives": func(t *rapid.T) {
			s.deliverOne(rapid.SampledFrom([]string{"nodes", "volumes", "claims", "classes"}).Draw(t, "kind"))
		},
		"all events arrive": func(*rapid.T) { s.deliver() },
		"the queues are worked off": func(*rapid.T) {
			s.look(s.queuedVolumes, s.c.reconcileVolume)
			s.look(s.queuedClaims, s.c.reconcileClaim)
		},
		"a lost node is back, and the queues are worked off before the news comes": func(*rapid.T) {
			host := s.anyHost()
			if s.nodes[host] != nil {
				return
			}
			s.toggleNode(host)
			s.look(s.queuedVolumes, s.c.reconcileVolume)
			s.look(s.queuedClaims, s.c.reconcileClaim)
		},
		"time passes": func(t *rapid.T) {
			s.clock.Step(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour}).Draw(t, "time"))
		},
	}
}

func (s *simulation) addBound(host string) {
	v, claim := makeVolume(s.name("v"), host), makeClaim(s.name("c"))
	claim.Finalizers = []string{"kubernetes.io/pvc-protection"}
	if rapid.Bool().Draw(s.t, "retain") {
		v.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRetain
	}
	if rapid.IntRange(0, 3).Draw(s.t, "other") == 0 {
		v.Spec.CSI.Driver = otherDriver
	}
	s.stamp(claim)
	bind(v, claim)
	s.addClaim(claim)
	s.addVolume(v)
}

func (s *simulation) toggleNode(host string) {
	if s.nodes[host] == nil {
		s.addNode(host, `{"pool-ssd":"1"}`, nil)
		s.withNews(func() { delete(s.goneSince, host) })
		return
	}
	s.removeNode(host)
	s.withNews(func() { s.goneSince[host] = s.clock.Now() })
}

// withNews does something when the last news of a node arrives.
func (s *simulation) withNews(do func()) {
	news := s.lagging["nodes"]
	last := news[len(news)-1]
	news[len(news)-1] = func() {
		last()
		do()
	}
}

// manage does what the controller manager does: it lets go of claims, releases
// volumes whose claim is gone, and lets go of those.
func (s *simulation) manage() {
	for _, key := range slices.Sorted(maps.Keys(s.claims)) {
		if s.claims[key].DeletionTimestamp != nil {
			s.changeClaim(key, func(c *v1.PersistentVolumeClaim) { c.Finalizers = nil })
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.volumes)) {
		v := s.volumes[name]
		if ref := v.Spec.ClaimRef; v.Status.Phase == v1.VolumeBound && s.claims[claimKey(ref.Namespace, ref.Name)] == nil {
			s.changeVolume(name, func(v *v1.PersistentVolume) { v.Status.Phase = v1.VolumeReleased })
		}
		if v.DeletionTimestamp != nil && v.Status.Phase != v1.VolumeBound && slices.Contains(v.Finalizers, "kubernetes.io/pv-protection") {
			s.changeVolume(name, func(v *v1.PersistentVolume) {
				v.Finalizers = slices.DeleteFunc(v.Finalizers, func(f string) bool { return f == "kubernetes.io/pv-protection" })
			})
		}
	}
}

// calm lets everything that can come to an end do so, and looks at what is left.
func (s *simulation) calm() {
	s.down = false
	for range 4 {
		s.manage()
		s.pass(s.t, s.c.settings.LostNodeDelay+2*brakeRecheck)
	}
	missing, allowed := s.missingInCaches()
	if s.c.settings.DryRun || missing > allowed {
		return
	}
	for name, v := range s.volumes {
		if v.Spec.CSI.Driver != testDriver || s.nodes[s.c.hostOf(v)] != nil || v.Status.Phase == v1.VolumeBound {
			continue
		}
		if v.DeletionTimestamp != nil || v.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete {
			s.t.Fatalf("volume %s of a lost node hangs: %s, finalizers %q", name, v.Status.Phase, v.Finalizers)
		}
	}
	for key, claim := range s.claims {
		node := selectedNode(claim)
		if pending(claim) && node != "" && s.nodes[node] == nil {
			s.t.Fatalf("claim %s waits for lost node %s", key, node)
		}
	}
}

// Whatever happens in whatever order, no write is wrong, and nothing hangs in the end.
func TestProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSimulation(t)
		for range 3 {
			t.Repeat(s.actions())
			s.calm()
		}
	})
}
