package schedplugin

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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

// grow asks for more.
func (w *world) grow() {
	key, ok := pickString(w, w.truth[streamClaims])
	if !ok {
		return
	}
	c := claimBuilder{w.claim(key)}
	if _, bound := w.truth[streamVolumes][c.Spec.VolumeName]; !bound {
		return
	}
	c = c.asking(requestedBytes(c.PersistentVolumeClaim) + int64(1+w.random.IntN(2))*worldExtent)
	c.ResourceVersion = ""
	must(w.t, w.put(streamClaims, c.PersistentVolumeClaim))
}

// extend is the driver's answer: it extends the volume if that leaves room for
// all that is on its way, else the user takes the wish back. (A pod that was
// placed before the scheduler could know of the wish competes with it: a window.)
func (w *world) extend(key string) {
	c := claimBuilder{w.claim(key)}
	o, bound := w.truth[streamVolumes][c.Spec.VolumeName]
	if !bound {
		return
	}
	v := volumeBuilder{o.(*v1.PersistentVolume)}
	size, asked := v.Spec.Capacity[v1.ResourceStorage], requestedBytes(c.PersistentVolumeClaim)
	if asked <= size.Value() || v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != c.UID {
		return
	}
	w.ledger.mu.RLock()
	e := w.ledger.entries[claimKey(c.UID)]
	known := e != nil && e.claim != nil && e.claim.requestedBytes >= asked
	w.ledger.mu.RUnlock()
	if !known {
		return
	}
	d := demand{pool: v.Spec.CSI.VolumeAttributes[capacity.ParamPool], requestedBytes: asked}
	if v.Spec.CSI.VolumeAttributes[capacity.ParamLayout] == "raid1" {
		d.shape = capacity.Shape{Layout: capacity.LayoutRAID1, Stripes: 2}
	}
	on := w.disks[v.host()][d.pool]
	delta := d.poolBytes(worldExtent) - on.volumes[v.Name]
	if on.used()+w.onTheWay(v.host(), d.pool)+delta > on.sizeBytes {
		c = c.asking(size.Value())
		c.ResourceVersion = ""
		must(w.t, w.put(streamClaims, c.PersistentVolumeClaim))
		return
	}
	on.volumes[v.Name] += delta
	grown, err := capacity.VolumeSize(d.shape, d.filesystem, asked, 0, worldExtent)
	must(w.t, err)
	v = v.copied()
	v.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(grown, resource.BinarySI)}
	must(w.t, w.put(streamVolumes, v.PersistentVolume))
	w.happened["grown"]++
}

// onTheWay is what scheduling cycles and the API have promised and is not made.
func (w *world) onTheWay(node, pool string) (sum int64) {
	seen := map[string]bool{}
	count := func(c *v1.PersistentVolumeClaim) {
		if c == nil || seen[keyOf(c)] || c.Spec.VolumeName != "" || w.made[c.UID] != nil {
			return
		}
		seen[keyOf(c)] = true
		class := w.worldClass(storagehelpers.GetPersistentVolumeClaimClass(c))
		d, err := classDemand(class.Parameters)
		must(w.t, err)
		if d.pool == pool {
			sum += d.withClaim(requestedBytes(c), false).poolBytes(worldExtent)
		}
	}
	for _, o := range w.truth[streamClaims] {
		if c := o.(*v1.PersistentVolumeClaim); c.Annotations[storagehelpers.AnnSelectedNode] == node {
			count(c)
		}
	}
	for _, b := range w.bindings {
		if b.node != node {
			continue
		}
		for _, name := range claimsOf(b.pod) {
			if b.written || b.statics[namespace+"/"+name] != nil {
				continue // the API tells, or it needs no bytes
			}
			count(w.claim(namespace + "/" + name))
		}
		if w.podByUID(b.pod.UID) != nil {
			sum += w.inlineOnTheWay(b.pod, node, pool)
		}
	}
	for _, o := range w.truth[streamPods] {
		if pod := o.(*v1.Pod); pod.Spec.NodeName == node {
			sum += w.inlineOnTheWay(pod, node, pool)
		}
	}
	return sum
}

func (w *world) inlineOnTheWay(pod *v1.Pod, node, pool string) (sum int64) {
	for k, fact := range inlineVolumes(testDriver, pod) {
		if _, ok := w.disks[node][pool].volumes[string(k)]; !ok && fact.demand.pool == pool {
			sum += fact.demand.poolBytes(worldExtent)
		}
	}
	return sum
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

// books are all figures of a ledger, for comparison.
func (l *Ledger) books() map[string]int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	out := map[string]int64{}
	put := func(value int64, format string, args ...any) {
		if value != 0 {
			out[fmt.Sprintf(format, args...)] = value
		}
	}
	for name, b := range l.nodes {
		put(b.anyPool, "%s any", name)
		put(int64(b.inline), "%s inline", name)
		put(int64(len(b.volumes)), "%s volumes", name)
		for pool, p := range b.pools {
			put(p.limit, "%s %s limit", name, pool)
			put(p.used, "%s %s used", name, pool)
			put(p.ephemeral, "%s %s ephemeral", name, pool)
		}
	}
	for pool, n := range l.poolNodes {
		put(int64(n), "%s nodes", pool)
	}
	for node, offers := range l.offers {
		put(int64(len(offers)), "%s offers", node)
	}
	for pool, t := range l.totals {
		put(t.allocatable, "%s total allocatable", pool)
		put(t.used, "%s total used", pool)
		put(t.reserved, "%s total reserved", pool)
	}
	for k, e := range l.entries {
		for _, c := range e.charges {
			put(c.bytes, "%s on %s in %s", k, c.node, c.pool)
		}
	}
	return out
}

// check holds the books to themselves: sums are the sums of their parts.
func (w *world) check() {
	l := w.ledger
	l.mu.RLock()
	defer l.mu.RUnlock()
	sums := map[[2]string]int64{}
	for k, e := range l.entries {
		if e.empty() {
			w.t.Fatalf("step %d: empty entry %s", w.steps, k)
		}
		for _, c := range e.charges {
			sums[[2]string{c.node, c.pool}] += c.bytes
		}
	}
	for name, b := range l.nodes {
		if b.anyPool != sums[[2]string{name, anyPool}] {
			w.t.Fatalf("step %d: %s: %d bytes in any pool, entries say %d", w.steps, name, b.anyPool, sums[[2]string{name, anyPool}])
		}
		for pool, p := range b.pools {
			if p.used != sums[[2]string{name, pool}] || p.used < 0 || p.ephemeral < 0 || p.ephemeral > p.used {
				w.t.Fatalf("step %d: %s %s: used %d, entries say %d, ephemeral %d", w.steps, name, pool, p.used, sums[[2]string{name, pool}], p.ephemeral)
			}
		}
	}
	for uid, h := range l.holders {
		for _, k := range h.keys {
			if !slices.ContainsFunc(l.entries[k].holds, func(x hold) bool { return x.pod == uid }) {
				w.t.Fatalf("step %d: %s holds %s without a hold", w.steps, uid, k)
			}
		}
	}
}

// haunted tells of charges for volumes that were not seen before their claims
// were deleted.
func (l *Ledger) haunted() bool {
	for _, e := range l.entries {
		if slices.ContainsFunc(e.holds, func(h hold) bool { return h.volume != "" }) {
			return true
		}
	}
	return false
}

// checkRebuilt compares with a ledger that is built from the caches (I4, I5).
func (w *world) checkRebuilt() {
	for len(w.forLedger) > 0 {
		w.tellLedger()
	}
	if w.classGone() || len(w.ledger.holders) > 0 || w.ledger.haunted() {
		return
	}
	fresh := NewLedger(LedgerOptions{Driver: testDriver, Caches: w.cachesFor()})
	w.syncAll(fresh)
	if anew, kept := fresh.books(), w.ledger.books(); !maps.Equal(anew, kept) {
		w.t.Fatalf("step %d: books differ from those built anew (-new +kept):\n%s", w.steps, cmp.Diff(anew, kept))
	}
	w.happened["rebuilt"]++
}

func (w *world) classGone() bool {
	for _, c := range worldClasses {
		if _, ok, err := w.caches[streamClasses].GetByKey(c.name); err != nil || !ok {
			return true
		}
	}
	return false
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
