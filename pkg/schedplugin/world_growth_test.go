package schedplugin

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/csi-local/csi-local/pkg/capacity"
)

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
	delta := d.poolBytes(capacity.PoolFacts{}) - on.volumes[v.Name]
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
			sum += d.withClaim(requestedBytes(c), false).poolBytes(capacity.PoolFacts{})
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
			sum += fact.demand.poolBytes(capacity.PoolFacts{})
		}
	}
	return sum
}
