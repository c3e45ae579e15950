package schedplugin

import (
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"k8s.io/kube-scheduler/framework"
)

// binder is a model of VolumeBinding: its assume caches, fed in order by its
// own handlers, and its decisions, by the helper functions that it uses itself.
type binder struct {
	w       *world
	claims  map[string]*v1.PersistentVolumeClaim
	volumes map[string]*v1.PersistentVolume
	// api is what the events told, without what is assumed.
	api map[string]*v1.PersistentVolumeClaim
}

func newBinder(w *world) *binder {
	b := &binder{w: w, claims: map[string]*v1.PersistentVolumeClaim{}, volumes: map[string]*v1.PersistentVolume{}, api: map[string]*v1.PersistentVolumeClaim{}}
	for s := range streams {
		for _, o := range w.truth[s] {
			b.tell(notice{stream: s, key: keyOf(o), after: o})
		}
	}
	return b
}

func (b *binder) tell(n notice) {
	switch n.stream {
	case streamClaims:
		delete(b.claims, n.key)
		delete(b.api, n.key)
		if n.after != nil {
			b.claims[n.key] = n.after.(*v1.PersistentVolumeClaim)
			b.api[n.key] = b.claims[n.key]
		}
	case streamVolumes:
		delete(b.volumes, n.key)
		if n.after != nil {
			b.volumes[n.key] = n.after.(*v1.PersistentVolume)
		}
	}
}

// binding is a pod's binding cycle.
type binding struct {
	pod   *v1.Pod
	node  string
	state *fakeState
	// statics and provisions are the objects to write, by the claim's key.
	statics    map[string]*v1.PersistentVolume
	provisions map[string]*v1.PersistentVolumeClaim
	written    bool
}

// find is VolumeBinding's Filter for one node.
func (b *binder) find(pod *v1.Pod, node *v1.Node) (out *binding, ok bool) {
	out = &binding{pod: pod, node: node.Name, statics: map[string]*v1.PersistentVolume{}, provisions: map[string]*v1.PersistentVolumeClaim{}}
	var match []*v1.PersistentVolumeClaim
	for _, name := range claimsOf(pod) {
		claim := b.claims[namespace+"/"+name]
		if claim == nil || claim.Status.Phase == v1.ClaimLost || claim.DeletionTimestamp != nil {
			return nil, false
		}
		selected := claim.Annotations[storagehelpers.AnnSelectedNode]
		switch {
		case claim.Spec.VolumeName != "":
			volume := b.volumes[claim.Spec.VolumeName]
			if volume == nil || storagehelpers.CheckNodeAffinity(volume, node.Labels) != nil {
				return nil, false
			}
		case selected != "" && selected != node.Name:
			return nil, false
		case selected != "":
			out.provisions[keyOf(claim)] = claim
		default:
			match = append(match, claim)
		}
	}
	slices.SortStableFunc(match, func(x, y *v1.PersistentVolumeClaim) int {
		p, q := x.Spec.Resources.Requests[v1.ResourceStorage], y.Spec.Resources.Requests[v1.ResourceStorage]
		return p.Cmp(q)
	})
	chosen := map[string]*v1.PersistentVolume{}
	for _, claim := range match {
		volume, err := storagehelpers.FindMatchingVolume(claim, b.sorted(), node, chosen, true, true)
		must(b.w.t, err)
		if volume != nil {
			chosen[volume.Name] = volume
			out.statics[keyOf(claim)] = volume
			continue
		}
		if b.w.class(storagehelpers.GetPersistentVolumeClaimClass(claim)) == nil {
			return nil, false
		}
		out.provisions[keyOf(claim)] = claim
	}
	return out, true
}

func (b *binder) sorted() []*v1.PersistentVolume {
	var out []*v1.PersistentVolume
	for _, name := range slices.Sorted(maps.Keys(b.volumes)) {
		out = append(out, b.volumes[name])
	}
	return out
}

// assume is VolumeBinding's Reserve.
func (b *binder) assume(out *binding) {
	for key, volume := range out.statics {
		bound := volume.DeepCopy()
		claim := b.claims[key]
		bound.Spec.ClaimRef = &v1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
		out.statics[key], b.volumes[volume.Name] = bound, bound
	}
	for key, claim := range out.provisions {
		named := claim.DeepCopy()
		metav1.SetMetaDataAnnotation(&named.ObjectMeta, storagehelpers.AnnSelectedNode, out.node)
		out.provisions[key], b.claims[key] = named, named
	}
}

// revert is VolumeBinding's Unreserve.
func (b *binder) revert(out *binding) {
	for key := range out.provisions {
		delete(b.claims, key)
		if api, ok := b.api[key]; ok {
			b.claims[key] = api
		}
	}
	for _, volume := range out.statics {
		delete(b.volumes, volume.Name)
		if o, ok, err := b.w.caches[streamVolumes].GetByKey(volume.Name); err == nil && ok {
			b.volumes[volume.Name] = o.(*v1.PersistentVolume)
		}
	}
}

func (w *world) cachedPod(uid types.UID) *v1.Pod {
	for _, o := range w.caches[streamPods].List() {
		if pod := o.(*v1.Pod); pod.UID == uid {
			return pod
		}
	}
	return nil
}

func (w *world) nodeInfos() []*fakeNodeInfo {
	var infos []*fakeNodeInfo
	for _, name := range slices.Sorted(slices.Values(w.caches[streamNodes].ListKeys())) {
		o, _, err := w.caches[streamNodes].GetByKey(name)
		must(w.t, err)
		infos = append(infos, nodeInfo(o.(*v1.Node)))
	}
	w.random.Shuffle(len(infos), func(i, j int) { infos[i], infos[j] = infos[j], infos[i] })
	return infos
}

// try is Filter on all nodes; found is nil if none will do.
func (w *world) try(pod *v1.Pod) (found *binding, rejected rejection) {
	state, statuses, refused := filterAll(context.Background(), w.plugin, pod, w.nodeInfos()...)
	if refused.Code() == framework.Error {
		w.t.Fatalf("PreFilter: %v", refused.AsError())
	}
	if refused.IsRejected() {
		return nil, rejection{byUs: true}
	}
	skipped := refused.IsSkip()
	for _, info := range w.nodeInfos() {
		ours := statuses[info.node.Name]
		if !skipped && !ours.IsSuccess() {
			rejected.byUs = true
			continue
		}
		out, ok := w.binder.find(pod, info.node)
		if !ok {
			rejected.byBinder = true
			continue
		}
		out.state = state
		return out, rejection{}
	}
	return nil, rejected
}

// schedule is one scheduling cycle.
func (w *world) schedule(uid types.UID) {
	ctx, pod := context.Background(), w.cachedPod(uid)
	if pod == nil && w.podByUID(uid) != nil {
		return // not seen yet
	}
	if pod == nil || pod.Spec.NodeName != "" || w.bindings[uid] != nil {
		delete(w.active, uid)
		return
	}
	out, rejected := w.try(pod)
	delete(w.active, uid)
	if out == nil {
		w.waiting[uid] = rejected
		w.happened["refused"]++
		return
	}
	if status := w.plugin.Reserve(ctx, out.state, pod, out.node); !status.IsSuccess() {
		w.plugin.Unreserve(ctx, out.state, pod, out.node)
		w.waiting[uid] = rejection{byUs: true}
		return
	}
	if w.random.IntN(10) == 0 { // another plugin's Reserve or Permit fails
		w.plugin.Unreserve(ctx, out.state, pod, out.node)
		w.active[uid] = true
		return
	}
	w.binder.assume(out)
	w.plugin.Permit(ctx, out.state, pod, out.node)
	w.bindings[uid] = out
	w.happened["reserved"]++
}

// bind takes a binding cycle one step further.
func (w *world) bind(uid types.UID) {
	b := w.bindings[uid]
	switch {
	case !b.written && w.random.IntN(20) == 0: // another plugin's PreBind fails
		w.failBinding(uid)
	case !b.written:
		b.written = true
		if !w.write(b) {
			w.failBinding(uid)
		}
	default:
		w.poll(uid, b)
	}
}

// write is VolumeBinding's API update. Now and then the answer to one that went
// through is lost.
func (w *world) write(b *binding) bool {
	for _, key := range slices.Sorted(maps.Keys(b.statics)) {
		volume := b.statics[key].DeepCopy()
		if w.update(streamVolumes, volume) != nil {
			return false
		}
		b.statics[key] = volume
	}
	for _, key := range slices.Sorted(maps.Keys(b.provisions)) {
		claim := b.provisions[key].DeepCopy()
		if w.update(streamClaims, claim) != nil || w.random.IntN(30) == 0 {
			return false
		}
		b.provisions[key] = claim
	}
	return true
}

// poll is VolumeBinding's wait for the binding, and what follows it.
func (w *world) poll(uid types.UID, b *binding) {
	if w.cachedPod(uid) == nil {
		w.failBinding(uid)
		return
	}
	for _, key := range sortedKeys(b.provisions) {
		claim, want := w.binder.api[key], b.provisions[key]
		if claim == nil {
			w.failBinding(uid)
			return
		}
		if len(claim.ResourceVersion) < len(want.ResourceVersion) || len(claim.ResourceVersion) == len(want.ResourceVersion) && claim.ResourceVersion < want.ResourceVersion {
			return // not seen yet
		}
		if claim.Annotations[storagehelpers.AnnSelectedNode] != b.node {
			w.failBinding(uid)
			return
		}
		if claim.Spec.VolumeName == "" || w.binder.volumes[claim.Spec.VolumeName] == nil {
			return
		}
	}
	for _, key := range sortedKeys(b.statics) {
		claim := w.binder.api[key]
		if claim == nil {
			w.failBinding(uid)
			return
		}
		if claim.Spec.VolumeName == "" {
			return
		}
	}
	w.bindPod(uid, b)
}

func (w *world) bindPod(uid types.UID, b *binding) {
	pod := w.podByUID(uid)
	if pod == nil || pod.Spec.NodeName != "" || w.random.IntN(30) == 0 {
		w.failBinding(uid)
		return
	}
	placed := pod.DeepCopy()
	placed.Spec.NodeName = b.node
	must(w.t, w.put(streamPods, placed))
	if w.random.IntN(30) == 0 { // bound, but the answer is lost
		w.failBinding(uid)
		return
	}
	w.plugin.PostBind(context.Background(), b.state, b.pod, b.node)
	w.activated()
	delete(w.bindings, uid)
	w.happened["bound"]++
}

// activated puts the pods that the plugin woke back into the queue.
func (w *world) activated() {
	handle := w.plugin.handle.(*fakeHandle)
	for _, uid := range sortedKeys(handle.activated) {
		delete(w.waiting, types.UID(uid))
		w.active[types.UID(uid)] = true
	}
	handle.activated = nil
}

func (w *world) failBinding(uid types.UID) {
	b := w.bindings[uid]
	delete(w.bindings, uid)
	w.happened["binding failed"]++
	w.plugin.Unreserve(context.Background(), b.state, b.pod, b.node)
	w.binder.revert(b)
	gone := b.pod.DeepCopy()
	gone.Spec.NodeName = b.node
	w.hint(notice{stream: streamPods, before: gone})
	w.active[uid] = true
}
