package sim

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/schedplugin"
)

const (
	driver      = capacity.DefaultDriverName
	pool        = "pool-ssd"
	class       = "local-dynamic-ssd"
	namespace   = "default"
	extentBytes = 4 << 20
	// settleDelay and volumeDelay are those of the plugin's settler.
	settleDelay = time.Second
	volumeDelay = 10 * time.Second
)

// local is our plugin: its own ledger, over caches which the simulation fills.
// What the plugin does beyond the ledger (hints, the settler, the normalized
// score) is done here as it does it.
type local struct {
	untracked
	scheduler *scheduler
	ledger    *schedplugin.Ledger
	// reserving is false for the variant that leaves Reserve out.
	reserving bool

	caches struct{ nodes, volumes, claims, pods, classes, csiNodes cache.Indexer }
	pods   []*v1.Pod
	// wants are what each pod wanted in its last cycle.
	wants  []schedplugin.Wants
	byUID  map[types.UID]*claim
	byName map[string]*claim
}

var errRefused = errors.New("the plugin refused the pod for all nodes")

func newLocal(s *scheduler, reserving bool) (*local, error) {
	l := &local{scheduler: s, reserving: reserving, wants: make([]schedplugin.Wants, len(s.cluster.pods)), byUID: map[types.UID]*claim{}, byName: map[string]*claim{}}
	for _, c := range []*cache.Indexer{&l.caches.nodes, &l.caches.volumes, &l.caches.claims, &l.caches.pods, &l.caches.classes, &l.caches.csiNodes} {
		*c = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	l.ledger = schedplugin.NewLedger(schedplugin.LedgerOptions{
		Driver: driver,
		Caches: schedplugin.Caches{
			Nodes: corelisters.NewNodeLister(l.caches.nodes), Volumes: corelisters.NewPersistentVolumeLister(l.caches.volumes),
			Claims: corelisters.NewPersistentVolumeClaimLister(l.caches.claims), Pods: corelisters.NewPodLister(l.caches.pods),
			Classes: storagelisters.NewStorageClassLister(l.caches.classes), CSINodes: storagelisters.NewCSINodeLister(l.caches.csiNodes),
		},
		Unsettled: l.settleLater,
		Released:  func() { s.cluster.after(0, l.wakeAll) },
		Now:       func() time.Time { return time.Unix(0, 0).Add(s.cluster.now) },
	})
	for _, c := range s.cluster.claims {
		l.byUID[claimUID(c)], l.byName[volumeName(c)] = c, c
	}
	return l, l.publish()
}

// publish fills the caches with what is there from the beginning.
func (l *local) publish() error {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	problems := []error{
		l.caches.classes.Add(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: driver, VolumeBindingMode: &mode, Parameters: map[string]string{capacity.ParamPool: pool}}),
		l.ledger.SyncClass(class),
	}
	for _, n := range l.scheduler.cluster.nodes {
		figures, err := capacity.EncodePools(map[string]int64{pool: n.poolBytes})
		problems = append(problems, err,
			l.caches.nodes.Add(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name,
				Labels:      map[string]string{v1.LabelHostname: n.name, capacity.TopologyKey(driver): n.name},
				Annotations: map[string]string{capacity.PoolsAnnotation(driver): figures}}}),
			l.caches.csiNodes.Add(&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: n.name},
				Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driver, NodeID: n.name}}}}),
			l.ledger.SyncNode(n.name))
	}
	for _, p := range l.scheduler.cluster.pods {
		l.pods = append(l.pods, podObject(p))
	}
	return errors.Join(problems...)
}

// begin is PreFilter.
func (l *local) begin(p *pod) error {
	wants, refusal, err := l.ledger.Wants(l.pods[p.id])
	if refusal != nil {
		return fmt.Errorf("%w: pod %d: %s", errRefused, p.id, refusal)
	}
	l.wants[p.id] = wants
	return err
}

func (l *local) fits(p *pod, node int) bool {
	_, ok := l.ledger.Fits(l.scheduler.cluster.nodes[node].name, l.wants[p.id])
	return ok
}

// score is what the pool will have left, in parts of the most that any of the
// nodes will have left: the strategy Spread. What the pod's claims are charged
// already makes no difference between the nodes.
func (l *local) score(p *pod, nodes []int, into []int64) {
	if l.wants[p.id].Len() == 0 {
		return
	}
	left := make([]int64, len(nodes))
	var most int64
	for i, node := range nodes {
		f := l.ledger.Pool(l.scheduler.cluster.nodes[node].name, pool)
		left[i] = max(0, f.LimitBytes-f.UsedBytes-requested(p)) >> 20
		most = max(most, left[i])
	}
	for i := range nodes {
		share := int64(100)
		if most > 0 {
			share = left[i] * 100 / most
		}
		into[i] += share
	}
}

func (l *local) reserve(p *pod, node int) (bool, error) {
	if !l.reserving {
		return true, nil
	}
	_, ok, err := l.ledger.Reserve(l.pods[p.id], l.scheduler.cluster.nodes[node].name, l.wants[p.id])
	return ok, err
}

func (l *local) unreserve(p *pod, node int) error {
	open, err := l.ledger.Unreserve(l.pods[p.id].UID, true)
	for _, u := range open {
		l.settleLater(u)
	}
	l.wakeFitting(node)
	return err
}

func (l *local) postBind(p *pod) error {
	released, err := l.ledger.Bound(l.pods[p.id])
	if released {
		l.wakeAll()
	}
	return err
}

// settleLater is the plugin's settler: it asks the API, after a while, what
// became of a claim.
func (l *local) settleLater(u schedplugin.Unsettled) {
	c, written := l.byUID[u.Claim], func(c *claim) bool { return c.api.selected != none || c.api.bound || c.api.deleted }
	delay := settleDelay
	if u.Volume != "" {
		c, written = l.byName[u.Volume], func(c *claim) bool { return c.volume.exists() }
		delay = volumeDelay
	}
	l.scheduler.cluster.after(delay+l.scheduler.client.latency(), func() {
		if written(c) {
			return
		}
		released, err := l.ledger.Settle(u)
		l.scheduler.failed(err)
		if released {
			l.wakeAll()
		}
	})
}

func (l *local) wakeAll() { l.scheduler.wake(anyOf(byTracker)) }

// wakeFitting is the plugin's hints: bytes may be free on the node, so pods that
// would fit there now are woken.
func (l *local) wakeFitting(node int) {
	l.scheduler.wake(func(p *pod) bool { return p.sched.rejected&byTracker != 0 && l.fits(p, node) })
}

func (l *local) sawClaim(c *claim, before, now claimState) error {
	var err error
	if now.deleted {
		err = l.caches.claims.Delete(claimObject(c, now, l.scheduler.cluster))
	} else {
		err = l.caches.claims.Update(claimObject(c, now, l.scheduler.cluster))
	}
	err = errors.Join(err, l.ledger.SyncClaim(namespace, claimName(c)))
	if before.selected != none && (now.selected != before.selected || now.deleted) {
		l.wakeFitting(before.selected)
	}
	return err
}

func (l *local) sawVolume(c *claim, before, now volumeState) error {
	var err error
	if now.exists() {
		err = l.caches.volumes.Update(volumeObject(c, now, l.scheduler.cluster))
	} else {
		err = l.caches.volumes.Delete(volumeObject(c, now, l.scheduler.cluster))
	}
	err = errors.Join(err, l.ledger.SyncVolume(volumeName(c)))
	if before.exists() && !now.exists() {
		l.wakeFitting(now.node)
	}
	return err
}

func claimName(c *claim) string   { return "claim-" + strconv.Itoa(c.id) }
func claimUID(c *claim) types.UID { return types.UID("uid-" + strconv.Itoa(c.id)) }
func volumeName(c *claim) string  { return "pvc-" + string(claimUID(c)) }

func bytesOf(bytes int64) v1.ResourceList {
	return v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(bytes, resource.BinarySI)}
}

func podObject(p *pod) *v1.Pod {
	out := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pod-" + strconv.Itoa(p.id), UID: types.UID("pod-" + strconv.Itoa(p.id))}}
	for _, c := range p.claims {
		out.Spec.Volumes = append(out.Spec.Volumes, v1.Volume{Name: claimName(c),
			VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(c)}}})
	}
	return out
}

func claimObject(c *claim, now claimState, in *cluster) *v1.PersistentVolumeClaim {
	name := class
	out := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: claimName(c), UID: claimUID(c), ResourceVersion: strconv.Itoa(now.version), Annotations: map[string]string{}},
		Spec:       v1.PersistentVolumeClaimSpec{StorageClassName: &name, Resources: v1.VolumeResourceRequirements{Requests: bytesOf(c.bytes)}},
		Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
	}
	if now.selected != none {
		out.Annotations[storagehelpers.AnnSelectedNode] = in.nodes[now.selected].name
	}
	if now.annotated {
		out.Annotations[storagehelpers.AnnStorageProvisioner] = driver
	}
	if now.bound {
		out.Spec.VolumeName, out.Status.Phase = volumeName(c), v1.ClaimBound
	}
	return out
}

func volumeObject(c *claim, now volumeState, in *cluster) *v1.PersistentVolume {
	phase := map[volumePhase]v1.PersistentVolumePhase{volumeMade: v1.VolumePending, volumeBound: v1.VolumeBound, volumeReleased: v1.VolumeReleased}[now.phase]
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volumeName(c), ResourceVersion: strconv.Itoa(now.version)},
		Spec: v1.PersistentVolumeSpec{
			Capacity: bytesOf(c.bytes), StorageClassName: class,
			ClaimRef: &v1.ObjectReference{Namespace: namespace, Name: claimName(c), UID: claimUID(c)},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: volumeName(c),
				VolumeAttributes: map[string]string{capacity.ParamPool: pool, capacity.ParamLayout: string(capacity.LayoutLinear)}}},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: capacity.TopologyKey(driver), Operator: v1.NodeSelectorOpIn, Values: []string{in.nodes[now.node].name}}}}}}},
		},
		Status: v1.PersistentVolumeStatus{Phase: phase},
	}
}
