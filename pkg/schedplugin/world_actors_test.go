package schedplugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/csi-local/csi-local/pkg/capacity"
)

const worldExtent = int64(defaultExtentSizeBytes)

// disk is what a pool of a node really has.
type disk struct {
	sizeBytes int64
	volumes   map[string]int64
}

func (d *disk) used() (sum int64) {
	for _, bytes := range d.volumes {
		sum += bytes
	}
	return sum
}

// diskVolume is a volume that was made for a claim.
type diskVolume struct {
	id         string
	node, pool string
	sizeBytes  int64
	shape      capacity.Shape
	class      string
	claim      types.NamespacedName
	published  bool // its PersistentVolume was made
}

func (v *diskVolume) footprint(w *world) int64 {
	bytes, err := capacity.Footprint(v.shape, v.sizeBytes, worldExtent)
	must(w.t, err)
	return bytes
}

// worldClasses: two classes share pool-a, one makes copies; none names its pool.
var worldClasses = []struct{ name, pool, layout string }{
	{"fast", "pool-a", "linear"}, {"slow", "pool-a", "linear"}, {"mirror", "pool-a", "raid1"}, {"bulk", "pool-b", "linear"},
}

func (w *world) worldClass(name string) *storagev1.StorageClass {
	for _, c := range worldClasses {
		if c.name != name {
			continue
		}
		class := makeClass(c.name, c.pool, capacity.ParamLayout, c.layout)
		if c.layout == "raid1" {
			class.Parameters[capacity.ParamMirrors] = "2"
		}
		return class
	}
	w.t.Fatalf("no class %s", name)
	return nil
}

func (w *world) worldNode(name string) *v1.Node {
	n := makeNode(name, "pool-a", w.disks[name]["pool-a"].sizeBytes, "pool-b", w.disks[name]["pool-b"].sizeBytes)
	n.Labels[v1.LabelHostname] = "host-" + name
	return n
}

// populate makes the cluster: nodes of different sizes, classes, volumes that exist.
func (w *world) populate(nodes int) {
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		w.disks[name] = map[string]*disk{
			"pool-a": {sizeBytes: worldExtent * int64(12+w.random.IntN(24)), volumes: map[string]int64{}},
			"pool-b": {sizeBytes: worldExtent * int64(4+w.random.IntN(12)), volumes: map[string]int64{}},
		}
		must(w.t, w.put(streamNodes, w.worldNode(name)))
		must(w.t, w.put(streamCSINodes, makeCSINode(name)))
		if w.random.IntN(2) == 0 {
			id := "static-" + name
			w.disks[name]["pool-a"].volumes[id] = 4 * worldExtent
			volume := makeVolume(id, "pool-a", name, 4*worldExtent).class("fast")
			volume.ResourceVersion = ""
			must(w.t, w.put(streamVolumes, volume.PersistentVolume))
		}
	}
	for _, c := range worldClasses {
		must(w.t, w.put(streamClasses, w.worldClass(c.name)))
	}
	foreign := makeClass("foreign", "x")
	foreign.Provisioner = "other.example.com"
	must(w.t, w.put(streamClasses, foreign))
	w.start() // a volume that an administrator makes is seen when the next pod comes
}

// user makes a pod with some mixture of volumes.
func (w *world) user() {
	if len(w.truth[streamPods]) >= 14 {
		return
	}
	w.created++
	pod := makePod(fmt.Sprintf("p%d", w.created))
	pod.ResourceVersion = ""
	for range 1 + w.random.IntN(3) {
		bytes := int64(w.random.IntN(6))*worldExtent + 1 + int64(w.random.IntN(int(worldExtent)))
		class := worldClasses[w.random.IntN(len(worldClasses))].name
		switch w.random.IntN(8) {
		case 0:
			pod = pod.inline("pool-b", bytes)
		case 1:
			name := fmt.Sprintf("e%d", len(pod.Spec.Volumes))
			pod = pod.ephemeral(name)
			w.makeClaim(makeClaim(pod.Name+"-"+name, class, bytes).ownedBy(pod.Pod))
		case 2: // shared with another pod
			if key, ok := pickString(w, w.truth[streamClaims]); ok && !strings.Contains(key, "-e") {
				if name := strings.TrimPrefix(key, namespace+"/"); !slices.Contains(claimsOf(pod.Pod), name) {
					pod = pod.claiming(name)
				}
				continue
			}
			fallthrough
		default:
			w.created++
			name := fmt.Sprintf("c%d", w.created)
			pod = pod.claiming(name)
			w.makeClaim(makeClaim(name, class, bytes))
		}
	}
	must(w.t, w.put(streamPods, pod.Pod))
	w.active[pod.UID] = true
}

func (w *world) makeClaim(c claimBuilder) {
	c.ResourceVersion = ""
	c.UID = types.UID(fmt.Sprintf("u%d-%s", w.version, c.Name))
	must(w.t, w.put(streamClaims, c.PersistentVolumeClaim))
}

// deletePod removes a pod as kubelet does: its inline volumes go first. What it
// owns goes with it.
func (w *world) deletePod() {
	key, ok := pickString(w, w.truth[streamPods])
	if !ok {
		return
	}
	pod := w.truth[streamPods][key].(*v1.Pod)
	if pod.Spec.NodeName == "" && w.random.IntN(3) > 0 {
		return
	}
	for k := range inlineVolumes(testDriver, pod) {
		if pod.Spec.NodeName != "" {
			delete(w.disks[pod.Spec.NodeName]["pool-b"].volumes, string(k))
		}
	}
	w.remove(streamPods, key)
	for _, name := range claimsOf(pod) {
		if c := w.claim(namespace + "/" + name); c != nil && ownedByPod(c) {
			w.deleteClaim(keyOf(c))
		}
	}
}

// deleteClaim deletes a claim that no pod uses. Its volume may just be being made.
func (w *world) deleteClaim(key string) {
	c := w.claim(key)
	if c == nil {
		return
	}
	for _, b := range w.bindings {
		if b.provisions[key] != nil || b.statics[key] != nil {
			return
		}
	}
	w.remove(streamClaims, key)
	if c.Spec.VolumeName != "" {
		if o, ok := w.truth[streamVolumes][c.Spec.VolumeName]; ok {
			v := volumeBuilder{o.(*v1.PersistentVolume)}.phase(v1.VolumeReleased)
			must(w.t, w.put(streamVolumes, v.PersistentVolume))
		}
	}
}

func (w *world) deleteUnusedClaim() {
	used := map[string]bool{}
	for _, o := range w.truth[streamPods] {
		for _, name := range claimsOf(o.(*v1.Pod)) {
			used[namespace+"/"+name] = true
		}
	}
	unused := map[string]bool{}
	for key := range w.truth[streamClaims] {
		if !used[key] {
			unused[key] = true
		}
	}
	if key, ok := pickString(w, unused); ok {
		w.deleteClaim(key)
	}
}

// pickLiveClaim picks a claim for which somebody has something to do.
func (w *world) pickLiveClaim() (string, bool) {
	live := map[string]bool{}
	for key, o := range w.truth[streamClaims] {
		c := o.(*v1.PersistentVolumeClaim)
		if c.Annotations[storagehelpers.AnnSelectedNode] != "" || c.Spec.VolumeName != "" || w.hasVolume(claimBuilder{c}) {
			live[key] = true
		}
	}
	return pickString(w, live)
}

// reclaim wipes a released volume, or offers it anew.
func (w *world) reclaim() {
	name, ok := pickString(w, w.truth[streamVolumes])
	if !ok {
		return
	}
	v := volumeBuilder{w.truth[streamVolumes][name].(*v1.PersistentVolume)}
	if ref := v.Spec.ClaimRef; ref != nil && v.Status.Phase != v1.VolumeReleased {
		if c := w.claim(ref.Namespace + "/" + ref.Name); c == nil || c.UID != ref.UID {
			must(w.t, w.put(streamVolumes, v.phase(v1.VolumeReleased).PersistentVolume))
		}
		return
	}
	if v.Status.Phase != v1.VolumeReleased {
		return
	}
	node, pool, id := v.host(), v.Spec.CSI.VolumeAttributes[capacity.ParamPool], v.Name
	if w.random.IntN(4) == 0 && v.Spec.NodeAffinity != nil {
		v = v.phase(v1.VolumeAvailable)
		v.Spec.ClaimRef = nil
		must(w.t, w.put(streamVolumes, v.PersistentVolume))
		return
	}
	delete(w.disks[node][pool].volumes, id)
	w.remove(streamVolumes, name)
}

func (v volumeBuilder) host() string {
	host, _ := capacity.VolumeHost(testDriver, v.PersistentVolume)
	return strings.TrimPrefix(host, "host-")
}

// controller is the persistent volume controller: it asks the provisioner, and binds.
func (w *world) controller(key string) {
	c := claimBuilder{w.claim(key)}
	if c.Spec.VolumeName != "" {
		return
	}
	for _, name := range sortedKeys(w.truth[streamVolumes]) {
		v := w.truth[streamVolumes][name].(*v1.PersistentVolume)
		if v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != c.UID {
			continue
		}
		if v.Status.Phase != v1.VolumeBound {
			must(w.t, w.put(streamVolumes, volumeBuilder{v}.phase(v1.VolumeBound).PersistentVolume))
		}
		c = c.bound(name)
		c.ResourceVersion = ""
		must(w.t, w.put(streamClaims, c.PersistentVolumeClaim))
		return
	}
	if c.Annotations[storagehelpers.AnnSelectedNode] != "" && c.Annotations[storagehelpers.AnnStorageProvisioner] == "" {
		c = c.provisioner(testDriver)
		c.ResourceVersion = ""
		must(w.t, w.put(streamClaims, c.PersistentVolumeClaim))
	}
}

// provision is one step of a provisioner: it makes a volume, refuses one, or
// publishes one that it has made.
func (w *world) provision(key string) {
	c := claimBuilder{w.claim(key)}
	node := c.Annotations[storagehelpers.AnnSelectedNode]
	class := w.class(storagehelpers.GetPersistentVolumeClaimClass(c.PersistentVolumeClaim))
	made := w.made[c.UID]
	switch {
	case made != nil && !made.published:
		w.publish(c.UID, made)
	case made != nil || node == "" || c.Spec.VolumeName != "" || class == nil || c.Annotations[storagehelpers.AnnStorageProvisioner] == "" || w.hasVolume(c):
	case w.random.IntN(12) == 0: // as if there was no room: the scheduler has to choose anew
		c = c.unselected()
		c.ResourceVersion = ""
		must(w.t, w.put(streamClaims, c.PersistentVolumeClaim))
	default:
		w.create(c, node, class)
	}
}

func (w *world) hasVolume(c claimBuilder) bool {
	for _, o := range w.truth[streamVolumes] {
		if ref := o.(*v1.PersistentVolume).Spec.ClaimRef; ref != nil && ref.UID == c.UID {
			return true
		}
	}
	return false
}

// create is CreateVolume. That it never fails for lack of space is what all
// this is about.
func (w *world) create(c claimBuilder, node string, class *storagev1.StorageClass) {
	p, err := capacity.ParseClassParameters(class.Parameters)
	must(w.t, err)
	shape := p.ShapeIn(capacity.PoolThick)
	asked := c.Spec.Resources.Requests[v1.ResourceStorage]
	size, err := capacity.VolumeSize(shape, p.Filesystem, asked.Value(), 0, worldExtent)
	must(w.t, err)
	made := &diskVolume{id: "pvc-" + string(c.UID), node: node, pool: p.Pool, sizeBytes: size, shape: shape, class: class.Name,
		claim: types.NamespacedName{Namespace: c.Namespace, Name: c.Name}}
	d := w.disks[node][p.Pool]
	if d.used()+made.footprint(w) > d.sizeBytes {
		w.t.Fatalf("step %d: CreateVolume for %s on %s, pool %s: ResourceExhausted: %d of %d bytes in use, %d requested; books: %+v",
			w.steps, c.Name, node, p.Pool, d.used(), d.sizeBytes, made.footprint(w), w.ledger.Pool(node, p.Pool))
	}
	d.volumes[made.id] = made.footprint(w)
	w.made[c.UID] = made
	w.happened["created"]++
}

// publishOrphan publishes a volume whose claim was deleted meanwhile.
func (w *world) publishOrphan() bool {
	for _, uid := range slices.Sorted(maps.Keys(w.made)) {
		made := w.made[uid]
		if c := w.claim(made.claim.String()); !made.published && (c == nil || c.UID != uid) {
			w.publish(uid, made)
			w.happened["orphan"]++
			return true
		}
	}
	return false
}

func (w *world) publish(uid types.UID, made *diskVolume) {
	claim := makeClaim(made.claim.Name, made.class, 1).uid(string(uid))
	v := makeVolume(made.id, made.pool, made.node, made.sizeBytes).of(claim).attribute(capacity.ParamLayout, string(made.shape.Layout))
	if made.shape.Layout == capacity.LayoutRAID1 {
		v = v.attribute(capacity.ParamMirrors, fmt.Sprint(made.shape.Stripes))
	}
	if w.random.IntN(4) == 0 {
		v = v.byHostname("host-" + made.node)
	}
	v.ResourceVersion = ""
	must(w.t, w.put(streamVolumes, v.PersistentVolume))
	made.published = true
}

// kubelet makes the inline volumes of pods that were bound.
func (w *world) kubelet() {
	for _, key := range sortedKeys(w.truth[streamPods]) {
		pod := w.truth[streamPods][key].(*v1.Pod)
		if pod.Spec.NodeName == "" {
			continue
		}
		d := w.disks[pod.Spec.NodeName]["pool-b"]
		for k, fact := range inlineVolumes(testDriver, pod) {
			if _, ok := d.volumes[string(k)]; ok {
				continue
			}
			bytes := fact.demand.poolBytes(capacity.PoolFacts{})
			if d.used()+bytes > d.sizeBytes {
				w.t.Fatalf("step %d: no room for the inline volume of %s on %s", w.steps, pod.Name, pod.Spec.NodeName)
			}
			d.volumes[string(k)] = bytes
			w.happened["inline"]++
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
