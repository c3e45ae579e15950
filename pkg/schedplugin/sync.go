package schedplugin

import (
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// Caches are the informers' caches. They are read under the ledger's lock, and
// must not call back into it.
type Caches struct {
	Nodes    corelisters.NodeLister
	Volumes  corelisters.PersistentVolumeLister
	Claims   corelisters.PersistentVolumeClaimLister
	Pods     corelisters.PodLister
	Classes  storagelisters.StorageClassLister
	CSINodes storagelisters.CSINodeLister
}

// absent tells a lister's "not there" from a failure, which is returned: it is
// no reason to forget an object.
func absent(err error) (bool, error) {
	switch {
	case err == nil:
		return false, nil
	case apierrors.IsNotFound(err):
		return true, nil
	default:
		return false, err
	}
}

// SyncClaim looks at a claim and books what it says now.
func (l *Ledger) SyncClaim(namespace, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.syncClaim(types.NamespacedName{Namespace: namespace, Name: name})
}

func (l *Ledger) syncClaim(name types.NamespacedName) error {
	claim, err := l.caches.Claims.PersistentVolumeClaims(name.Namespace).Get(name.Name)
	gone, err := absent(err)
	if err != nil {
		return err
	}
	if before, ok := l.claimNames[name]; ok && (gone || claim.UID != before) {
		l.forgetClaim(name, before)
	}
	if gone {
		return nil
	}
	k, fact := claimKey(claim.UID), newClaimFact(claim)
	class, known := l.classes[fact.class]
	_, booked := l.entries[k]
	if known && !class.ours && !booked {
		return nil // another driver's
	}
	e := l.entryOf(k)
	e.claim = &fact
	l.claimNames[name] = claim.UID
	if err := l.lookElsewhere(k, e); err != nil {
		return err
	}
	l.resolveClass(k, e)
	if e.boundElsewhere || fact.selectedNode != "" || fact.volumeName != "" {
		// The API has the answer that a settling reservation waits for.
		l.dropHolds(k, func(h hold) bool { return h.settling || e.boundElsewhere })
	}
	l.recharge(k)
	return nil
}

// lookElsewhere finds out whether the claim is bound to somebody else's volume:
// then it needs none of ours.
func (l *Ledger) lookElsewhere(k key, e *entry) error {
	e.boundElsewhere = false
	if e.claim == nil || e.claim.volumeName == "" {
		return nil
	}
	volume, err := l.caches.Volumes.Get(e.claim.volumeName)
	gone, err := absent(err)
	if err != nil {
		return err
	}
	if !gone {
		_, ours := newVolumeFact(l.driver, volume)
		e.boundElsewhere = !ours
	}
	if gone || e.boundElsewhere {
		l.elsewhere[e.claim.volumeName] = k // look again when it comes or goes
	}
	return nil
}

// forgetClaim books that the claim is gone. Reservations stay until their
// scheduling cycle ends; volumes stay until they are gone themselves.
func (l *Ledger) forgetClaim(name types.NamespacedName, uid types.UID) {
	delete(l.claimNames, name)
	k := claimKey(uid)
	e, ok := l.entries[k]
	if !ok {
		return
	}
	if e.claim != nil {
		l.stopWaiting(e.claim.class, k)
	}
	e.claim, e.demand, e.boundElsewhere = nil, nil, false
	l.dropHolds(k, func(h hold) bool { return h.settling })
	l.recharge(k)
}

// resolveClass fills in what the claim asks for. A claim whose class is not
// there waits for it; one whose class is gone keeps what it asked for.
func (l *Ledger) resolveClass(k key, e *entry) {
	if e.claim == nil {
		return
	}
	class, known := l.classes[e.claim.class]
	switch {
	case known && class.ours && class.err == nil:
		d := class.demand.withClaim(e.claim.requestedBytes, e.claim.block)
		e.demand = &d
	case e.demand != nil:
		d := e.demand.withClaim(e.claim.requestedBytes, e.claim.block)
		e.demand = &d
	case !known:
		if l.waiting[e.claim.class] == nil {
			l.waiting[e.claim.class] = map[key]struct{}{}
		}
		l.waiting[e.claim.class][k] = struct{}{}
		return
	}
	l.stopWaiting(e.claim.class, k)
}

func (l *Ledger) stopWaiting(class string, k key) {
	delete(l.waiting[class], k)
	if len(l.waiting[class]) == 0 {
		delete(l.waiting, class)
	}
}

// SyncClass looks at a StorageClass. A class that is gone changes no charge.
func (l *Ledger) SyncClass(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	class, err := l.caches.Classes.Get(name)
	gone, err := absent(err)
	if err != nil {
		return err
	}
	if gone {
		delete(l.classes, name)
		return nil
	}
	fact := newClassFact(l.driver, class)
	l.classes[name] = fact
	for k := range maps.Clone(l.waiting[name]) {
		e := l.entries[k]
		l.resolveClass(k, e)
		if !fact.ours && len(e.volumes) == 0 && len(e.holds) == 0 {
			e.claim = nil // another driver's after all
		}
		l.recharge(k)
	}
	return nil
}

// SyncVolume looks at a PersistentVolume and books what it says now.
func (l *Ledger) SyncVolume(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	volume, err := l.caches.Volumes.Get(name)
	gone, err := absent(err)
	if err != nil {
		return err
	}
	var fact volumeFact
	ours := false
	if !gone {
		fact, ours = newVolumeFact(l.driver, volume)
	}
	if !ours {
		l.removeVolume(name)
		return l.bindElsewhere(name)
	}
	k := unclaimedKey(name)
	if fact.claim != "" {
		k = claimKey(fact.claim)
	}
	if before, ok := l.volumeNames[name]; ok && before != k {
		l.removeVolume(name)
	}
	e := l.entryOf(k)
	e.volumes = slices.DeleteFunc(e.volumes, func(v volumeFact) bool { return v.name == name })
	e.volumes = append(e.volumes, fact)
	slices.SortFunc(e.volumes, func(a, b volumeFact) int { return strings.Compare(a.name, b.name) })
	l.volumeNames[name] = k
	l.noteOffer(k, fact)
	// The volume is there: what was reserved for it is in its own charge now.
	l.dropHolds(k, func(hold) bool { return true })
	l.recharge(k)
	if ref := volume.Spec.ClaimRef; ref != nil && e.claim == nil {
		// The claim was passed over if its class is not ours; its growth counts.
		return l.syncClaim(types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	}
	return nil
}

// bindElsewhere looks again at the claim that is, or was, bound to a volume
// which is not this driver's.
func (l *Ledger) bindElsewhere(volume string) error {
	k, ok := l.elsewhere[volume]
	if !ok {
		return nil
	}
	delete(l.elsewhere, volume)
	e, ok := l.entries[k]
	if !ok {
		return nil
	}
	if err := l.lookElsewhere(k, e); err != nil {
		return err
	}
	l.recharge(k)
	return nil
}

func (l *Ledger) removeVolume(name string) {
	k, ok := l.volumeNames[name]
	if !ok {
		return
	}
	delete(l.volumeNames, name)
	e := l.entries[k]
	for _, v := range e.volumes {
		if v.name == name {
			l.dropOffer(k, v)
		}
	}
	e.volumes = slices.DeleteFunc(e.volumes, func(v volumeFact) bool { return v.name == name })
	l.recharge(k)
}

func (l *Ledger) noteOffer(k key, v volumeFact) {
	node := l.resolve(v.host)
	if v.offer == nil || node == "" {
		l.dropOffer(k, v)
		return
	}
	if l.offers[node] == nil {
		l.offers[node] = map[key]struct{}{}
	}
	l.offers[node][k] = struct{}{}
}

func (l *Ledger) dropOffer(k key, v volumeFact) {
	node := l.resolve(v.host)
	delete(l.offers[node], k)
	if len(l.offers[node]) == 0 {
		delete(l.offers, node)
	}
}

// SyncPod looks at a pod and books its inline volumes. It need not be called
// for pods without inline volumes of this driver.
func (l *Ledger) SyncPod(namespace, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := types.NamespacedName{Namespace: namespace, Name: name}
	pod, err := l.caches.Pods.Pods(namespace).Get(name)
	gone, err := absent(err)
	if err != nil {
		return err
	}
	var now map[key]inlineFact
	if !gone && !finished(pod) && pod.Spec.NodeName != "" {
		now = inlineVolumes(l.driver, pod)
	}
	for _, k := range l.podNames[id] {
		if _, still := now[k]; !still {
			l.entries[k].inline = nil
			l.recharge(k)
		}
	}
	delete(l.podNames, id)
	for k, fact := range now {
		e := l.entryOf(k)
		e.inline = &fact
		l.dropHolds(k, func(hold) bool { return true })
		l.recharge(k)
	}
	if len(now) > 0 {
		l.podNames[id] = slices.Sorted(maps.Keys(now))
	}
	return nil
}

// SyncNode looks at a Node and its CSINode. Volumes stay charged to a node that
// is gone, and to the one that comes back under its name.
func (l *Ledger) SyncNode(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	node, err := l.caches.Nodes.Get(name)
	gone, err := absent(err)
	if err != nil {
		return err
	}
	csiNode, csiErr := l.caches.CSINodes.Get(name)
	csiGone, csiErr := absent(csiErr)
	if csiErr != nil {
		return csiErr
	}
	var fact nodeFact
	if !gone {
		fact = newNodeFact(l.driver, node)
	}
	books := l.booksOf(name)
	books.attachable = attachable{}
	if !csiGone {
		books.attachable = newAttachable(l.driver, csiNode)
	}
	moved := l.noteHost(name, fact.hostname)
	if !maps.Equal(books.fact.extentSizes, fact.extentSizes) {
		moved = true
	}
	books.fact = fact
	l.publish(books)
	if moved {
		l.rechargeAll()
	}
	if gone && csiGone && len(books.pools) == 0 {
		delete(l.nodes, name)
	}
	return nil
}

// rechargeAll is for the rare events that concern volumes without naming them: a
// node whose extents are not the default, a hostname that leads elsewhere.
func (l *Ledger) rechargeAll() {
	clear(l.offers)
	for _, k := range slices.Collect(maps.Keys(l.entries)) {
		for _, v := range l.entries[k].volumes {
			l.noteOffer(k, v)
		}
		l.recharge(k)
	}
}

// publish puts the node's figures into the books.
func (l *Ledger) publish(books *nodeBooks) {
	for pool, book := range books.pools {
		if _, still := books.fact.allocatable[pool]; still || !book.known {
			continue
		}
		l.countPool(pool, -1)
		book.known, book.allocatable, book.limit = false, 0, 0
		if book.used == 0 {
			delete(books.pools, pool)
		}
	}
	for pool, allocatable := range books.fact.allocatable {
		book := books.pool(pool)
		if !book.known {
			l.countPool(pool, 1)
		}
		book.known, book.allocatable = true, allocatable
		book.limit = capacity.ScaleBytes(allocatable, l.ratio(pool))
	}
}

func (l *Ledger) countPool(pool string, n int) {
	l.poolNodes[pool] += n
	if l.poolNodes[pool] == 0 {
		delete(l.poolNodes, pool)
	}
}

// noteHost keeps the way from a hostname label to the node, where the two
// differ; moved tells that it changed.
func (l *Ledger) noteHost(name, hostname string) (moved bool) {
	if hostname == name {
		hostname = ""
	}
	before := l.nodeHosts[name]
	if before == hostname {
		return false
	}
	if l.hosts[before] == name {
		delete(l.hosts, before)
	}
	if hostname == "" {
		delete(l.nodeHosts, name)
	} else {
		l.hosts[hostname], l.nodeHosts[name] = name, hostname
	}
	return true
}
