package schedplugin

import (
	"errors"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

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

// reviewAll reviews entries in any order: what one entry is charged does not
// depend on another.
func (l *Ledger) reviewAll(entries entrySet) error {
	if len(entries) == 0 {
		return nil
	}
	var problems []error
	for _, e := range slices.Collect(maps.Keys(entries)) {
		problems = append(problems, l.reviewEntry(e))
	}
	return errors.Join(problems...)
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
		if err := l.forgetClaim(name, before); err != nil {
			return err
		}
	}
	if gone {
		return nil
	}
	k, fact := claimKey(claim.UID), newClaimFact(l.driver, claim)
	e := l.entryOf(k)
	e.claim = &fact
	l.claimNames[name] = claim.UID
	l.answerHolds(k, func(h *hold) bool { return h.answeredBy(fact) })
	if fact.volumeName != "" && len(e.volumes) == 0 {
		// Its volume may be in the cache already; then the claim needs no place in
		// the indexes until the volume's own event.
		if v, err := l.caches.Volumes.Get(fact.volumeName); err == nil && isOurs(l.driver, v) {
			err := l.bookVolume(v)
			if err != nil || l.volumeNames[v.Name] == e {
				return err // e has been reviewed
			}
		}
	}
	return l.reviewEntry(e)
}

// forgetClaim books that the claim is gone, and so nothing can be written to it
// any more. Its volumes stay until they are gone themselves, and so does what
// may become one.
func (l *Ledger) forgetClaim(name types.NamespacedName, uid types.UID) error {
	delete(l.claimNames, name)
	k := claimKey(uid)
	e, ok := l.entries[k]
	if !ok {
		return nil
	}
	if err := l.haunt(e); err != nil {
		return err
	}
	e.claim, e.deleted = nil, e.claim
	return l.reviewEntry(e)
}

// SyncClass looks at a StorageClass. A class of this driver that is gone
// changes no charge: volumes may be on their way.
func (l *Ledger) SyncClass(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.syncClass(name)
}

func (l *Ledger) syncClass(name string) error {
	class, err := l.caches.Classes.Get(name)
	gone, err := absent(err)
	if err != nil {
		return err
	}
	before, known := l.classes[name]
	if gone {
		if before.ours {
			before.gone = true
			l.classes[name] = before
			return nil
		}
		delete(l.classes, name)
		return l.reviewAll(l.unbound[name])
	}
	fact := newClassFact(l.driver, class)
	l.classes[name] = fact
	if known && !before.ours && fact.ours {
		return l.syncClaimsOf(name)
	}
	if known && before.ours == fact.ours && before.demand == fact.demand && (before.err == nil) == (fact.err == nil) {
		return nil
	}
	return l.reviewAll(l.unbound[name])
}

// syncClaimsOf is for a class that was another driver's and is this one's now:
// its claims were not remembered.
func (l *Ledger) syncClaimsOf(class string) error {
	claims, err := l.caches.Claims.List(labels.Everything())
	if err != nil {
		return err
	}
	var problems []error
	for _, c := range claims {
		if storagehelpers.GetPersistentVolumeClaimClass(c) == class {
			problems = append(problems, l.syncClaim(types.NamespacedName{Namespace: c.Namespace, Name: c.Name}))
		}
	}
	return errors.Join(append(problems, l.reviewAll(l.unbound[class]))...)
}

// SyncVolume looks at a PersistentVolume and books what it says now.
func (l *Ledger) SyncVolume(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.syncVolume(name)
}

func (l *Ledger) syncVolume(name string) error {
	if dropped, err := l.dropGhosts(name); dropped || err != nil {
		if err != nil {
			return err
		}
		l.released()
	}
	volume, err := l.caches.Volumes.Get(name)
	gone, err := absent(err)
	if err != nil {
		return err
	}
	if gone || !isOurs(l.driver, volume) {
		return errors.Join(l.removeVolume(name), l.reviewAll(l.unseen[name]))
	}
	return l.bookVolume(volume)
}

// bookVolume books what a volume of this driver says.
func (l *Ledger) bookVolume(volume *v1.PersistentVolume) error {
	name, fact := volume.Name, newVolumeFact(l.driver, volume)
	var k key
	if fact.claim != "" {
		k = claimKey(fact.claim)
	} else {
		k = unclaimedKey(name)
	}
	before, known := l.volumeNames[name]
	if known && before.key == k && slices.Contains(before.volumes, fact) {
		return nil // nothing new; after a start, a claim's volume is looked at with the claim
	}
	if known && before.key != k {
		if err := l.removeVolume(name); err != nil {
			return err
		}
	}
	e := l.entryOf(k)
	e.volumes = slices.DeleteFunc(e.volumes, func(v volumeFact) bool { return v.name == name })
	e.volumes = append(e.volumes, fact)
	slices.SortFunc(e.volumes, func(a, b volumeFact) int { return strings.Compare(a.name, b.name) })
	l.volumeNames[name] = e
	if len(e.holds) > 0 {
		// What was reserved for it is in its own charge now.
		nodes := l.chargeVolume(nil, e, &fact)
		l.answerHolds(k, func(h *hold) bool { return charged(nodes, h.node) })
	}
	if ref := volume.Spec.ClaimRef; fact.claim != "" && e.claim == nil {
		// The claim was passed over if its class is not ours; its growth counts.
		if err := l.syncClaim(types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}); err != nil {
			return err
		}
	}
	return errors.Join(l.reviewEntry(e), l.reviewAll(l.unseen[name]))
}

func (l *Ledger) removeVolume(name string) error {
	e, ok := l.volumeNames[name]
	if !ok {
		return nil
	}
	delete(l.volumeNames, name)
	e.volumes = slices.DeleteFunc(e.volumes, func(v volumeFact) bool { return v.name == name })
	return l.reviewEntry(e)
}

// SyncPod looks at a pod and books its inline volumes. It need not be called
// for pods without inline volumes of this driver.
func (l *Ledger) SyncPod(namespace, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.syncPod(types.NamespacedName{Namespace: namespace, Name: name})
}

func (l *Ledger) syncPod(id types.NamespacedName) error {
	pod, err := l.caches.Pods.Pods(id.Namespace).Get(id.Name)
	gone, err := absent(err)
	if err != nil {
		return err
	}
	var now map[key]inlineFact
	if !gone && !finished(pod) && pod.Spec.NodeName != "" {
		now = inlineVolumes(l.driver, pod)
	}
	var problems []error
	for _, holder := range slices.Clone(l.holderNames[id]) {
		if gone || finished(pod) || pod.UID != holder {
			problems = append(problems, l.dropInlineHolds(holder))
		}
	}
	for _, k := range l.podNames[id] {
		if _, still := now[k]; !still {
			l.entries[k].inline = nil
			problems = append(problems, l.review(k))
		}
	}
	delete(l.podNames, id)
	for k, fact := range now {
		l.entryOf(k).inline = &fact
		l.dropHolds(k, func(*hold) bool { return true })
		problems = append(problems, l.review(k))
	}
	if len(now) > 0 {
		l.podNames[id] = slices.Sorted(maps.Keys(now))
	}
	return errors.Join(problems...)
}
