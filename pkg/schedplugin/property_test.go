package schedplugin

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"pgregory.net/rapid"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// step lets one of the actors do one thing.
func (w *world) step() {
	w.steps++
	switch n := w.random.IntN(100); {
	case n < 5:
		w.user()
	case n < 24:
		w.advance(w.among(func(s stream) int { return len(w.pending[s]) }))
	case n < 40:
		w.tellLedger()
	case n < 50:
		w.tellBinder(w.among(func(s stream) int { return len(w.forBinder[s]) }))
	case n < 60:
		w.tellQueue(w.among(func(s stream) int { return len(w.forQueue[s]) }))
	case n < 67:
		if uid, ok := pickString(w, w.active); ok {
			w.schedule(uid)
		}
	case n < 77:
		if uid, ok := pickString(w, w.bindings); ok {
			w.bind(uid)
		}
	case n < 87:
		if key, ok := w.pickLiveClaim(); ok {
			w.provision(key)
			w.controller(key)
			w.extend(key)
		}
	case n < 88:
		w.kubelet()
		w.publishOrphan()
	case n < 90:
		w.settleOne()
		w.wakeReleased()
	default:
		w.rareStep()
	}
}

// among picks one of the streams that have something.
func (w *world) among(length func(stream) int) stream {
	var some []stream
	for s := range streams {
		if length(s) > 0 {
			some = append(some, s)
		}
	}
	if len(some) == 0 {
		return streamNodes
	}
	return some[w.random.IntN(len(some))]
}

func (w *world) rareStep() {
	switch n := w.random.IntN(100); {
	case n < 38:
		w.deletePod()
	case n < 56:
		w.deleteUnusedClaim()
	case n < 80:
		w.reclaim()
	case n < 83:
		w.republish()
	case n < 85:
		w.toggleNode()
	case n < 88:
		w.toggleClass()
	case n < 92:
		w.grow()
	case n < 94:
		w.relist(stream(w.random.IntN(int(streams))))
	case n < 95:
		for w.publishOrphan() { // a window: a restart forgets deleted claims
		}
		w.start()
		w.happened["restart"]++
	default:
		w.replay()
	}
}

// settleOne asks the API about a claim that is open.
func (w *world) settleOne() bool {
	if len(w.open) == 0 {
		return false
	}
	u := w.open[0]
	w.open = w.open[1:]
	written := false
	if u.Volume != "" {
		_, written = w.truth[streamVolumes][u.Volume]
		for uid, made := range w.made { // the provisioner has had its time
			if !made.published && "pvc-"+string(uid) == u.Volume {
				w.publish(uid, made)
				written = true
			}
		}
	} else if u.Claim != "" {
		c := w.claim(u.Name.String())
		written = c == nil || c.UID != u.Claim || (c.Annotations[storagehelpers.AnnSelectedNode] != "" || c.Spec.VolumeName != "")
	} else {
		pod := w.podByUID(u.Pod)
		written = pod != nil && pod.Spec.NodeName != ""
	}
	if written {
		return true
	}
	released, err := w.ledger.Settle(u)
	must(w.t, err)
	if released {
		w.happened["settled"]++
		w.wakeAll()
	}
	return true
}

func (w *world) wakeAll() {
	for uid := range w.waiting {
		w.active[uid] = true
	}
	clear(w.waiting)
}

// wakeReleased is the plugin's own goroutine.
func (w *world) wakeReleased() bool {
	select {
	case <-w.plugin.shared.released:
		w.wakeAll()
		return true
	default:
		return false
	}
}

// republish takes a node's figures away, or writes nonsense, or puts them right.
func (w *world) republish() {
	name, ok := pickString(w, w.truth[streamNodes])
	if !ok {
		return
	}
	n := w.worldNode(name)
	switch w.random.IntN(8) {
	case 0:
		delete(n.Annotations, capacity.PoolsAnnotation(testDriver))
	case 1:
		n = annotate(n, `{"pool-a":"-1","pool-b":"9223372036854775808"}`)
	}
	must(w.t, w.put(streamNodes, n))
}

// toggleNode deletes a node, or lets it come back under its name.
func (w *world) toggleNode() {
	for _, name := range sortedKeys(w.disks) {
		if _, ok := w.truth[streamNodes][name]; !ok {
			must(w.t, w.put(streamNodes, w.worldNode(name)))
			return
		}
	}
	w.remove(streamNodes, fmt.Sprintf("n%d", w.random.IntN(len(w.disks))))
}

func (w *world) toggleClass() {
	for _, c := range worldClasses {
		if w.class(c.name) == nil {
			must(w.t, w.put(streamClasses, w.worldClass(c.name)))
			return
		}
	}
	name := worldClasses[w.random.IntN(len(worldClasses))].name
	if name == "mirror" {
		return // after a restart nobody can know that it takes two copies: a window
	}
	w.remove(streamClasses, name)
}

// replay tells the ledger again what it knows (I3).
func (w *world) replay() {
	if len(w.forLedger) > 0 {
		return
	}
	before := w.ledger.books()
	w.syncAll(w.ledger)
	if after := w.ledger.books(); !maps.Equal(before, after) {
		w.t.Fatalf("step %d: the same events again changed the books (-before +after):\n%s", w.steps, cmp.Diff(before, after))
	}
}

// quiesce lets everybody finish, until nothing happens any more.
func (w *world) quiesce() {
	for _, name := range sortedKeys(w.disks) {
		must(w.t, w.put(streamNodes, w.worldNode(name)))
	}
	for _, c := range worldClasses {
		if w.class(c.name) == nil {
			must(w.t, w.put(streamClasses, w.worldClass(c.name)))
		}
	}
	for idle := 0; idle < 8; idle++ {
		before := w.version
		for s := range streams {
			for w.advance(s) || w.tellBinder(s) || w.tellQueue(s) {
				idle = 0
			}
		}
		for w.tellLedger() {
			idle = 0
		}
		for w.settleOne() || w.wakeReleased() {
			idle = 0
		}
		for _, uid := range slices.Sorted(maps.Keys(w.active)) {
			w.schedule(uid)
			idle = 0
		}
		for _, uid := range slices.Sorted(maps.Keys(w.bindings)) {
			w.bind(uid)
		}
		for _, key := range sortedKeys(w.truth[streamClaims]) {
			w.provision(key)
			w.controller(key)
			w.extend(key)
		}
		for w.publishOrphan() {
			idle = 0
		}
		w.kubelet()
		if w.version != before {
			idle = 0
		}
	}
}

// checkQuiet: with nothing in flight the books are the disks (I2), and no pod
// waits that would fit (I9).
func (w *world) checkQuiet() {
	if len(w.bindings) > 0 || len(w.ledger.holders) > 0 {
		w.t.Fatalf("step %d: still in flight: %v, held: %v", w.steps, w.bindings, w.ledger.holders)
	}
	for node, pools := range w.disks {
		for pool, d := range pools {
			if f := w.ledger.Pool(node, pool); f.UsedBytes != d.used() {
				w.t.Fatalf("step %d: %s %s: books say %d bytes in use, the disk has %d\n%v\n%v", w.steps, node, pool, f.UsedBytes, d.used(), w.ledger.books(), d.volumes)
			}
		}
	}
	for uid := range w.waiting {
		pod := w.cachedPod(uid)
		if out, _ := w.try(pod); out != nil {
			w.t.Fatalf("step %d: pod %s waits though it fits node %s", w.steps, pod.Name, out.node)
		}
	}
	w.checkRebuilt()
}

func (w *world) run(steps int) {
	for range steps {
		w.step()
		if w.steps%16 == 0 {
			w.check()
		}
		if w.steps%64 == 0 {
			w.checkRebuilt()
		}
	}
	w.quiesce()
	w.check()
	w.checkQuiet()
}

// TestWorld_NeverOversoldNothingLeakedNobodyForgotten runs worlds of random
// interleavings, 100 of them with 2,100 steps each. A world follows from its
// seed alone, and a failure names its step.
func TestWorld_NeverOversoldNothingLeakedNobodyForgotten(t *testing.T) {
	total, happened := 0, map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		w := newWorld(rt, seed)
		w.populate(2 + int(seed%3))
		w.run(2100)
		total += w.steps
		for what, n := range w.happened {
			happened[what] += n
		}
	})
	t.Logf("%d steps: %v", total, happened)
}
