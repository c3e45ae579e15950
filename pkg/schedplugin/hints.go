package schedplugin

import (
	"reflect"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// lastObject remembers the last event that was booked by a hint.
type lastObject struct {
	mu     sync.Mutex
	object any
}

func (l *lastObject) is(object any) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.object == object
}

func (l *lastObject) set(object any) {
	if reflect.ValueOf(object).Kind() != reflect.Pointer {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.object = object
}

func (p *LocalCapacity) afterNode(e event) (bool, error) {
	before, after, unknown := both[v1.Node](e)
	if unknown || after == nil {
		return unknown, nil
	}
	return p.any(func(b *driverBooks) (bool, error) {
		driver := b.ledger.driver
		now := newNodeFact(driver, after, nodeFact{})
		moved := before != nil && before.Labels[v1.LabelHostname] != now.hostname
		if before != nil && !moved && newNodeFact(driver, before, nodeFact{}).publishesLike(now) {
			return false, nil
		}
		if err := b.sync(e, func(_, name string) error { return b.ledger.SyncNode(name) }); err != nil {
			return true, err
		}
		c := p.shared.waiting.last(e.pod.UID)
		return moved || c != nil && c.refusal == ReasonPoolUnknown || p.fitsOneOf(e.pod, b, []string{after.Name}), nil
	})
}

func (p *LocalCapacity) afterCSINode(e event) (bool, error) {
	before, after, unknown := both[storagev1.CSINode](e)
	if unknown || after == nil {
		return unknown, nil
	}
	return p.any(func(b *driverBooks) (bool, error) {
		now := newAttachable(b.ledger.driver, after)
		if before != nil && newAttachable(b.ledger.driver, before) == now || !now.registered {
			return false, nil
		}
		if err := b.sync(e, func(_, name string) error { return b.ledger.SyncNode(name) }); err != nil {
			return true, err
		}
		return p.fitsOneOf(e.pod, b, []string{after.Name}), nil
	})
}

func (p *LocalCapacity) afterVolume(e event) (bool, error) {
	before, after, unknown := both[v1.PersistentVolume](e)
	if unknown {
		return true, nil
	}
	return p.any(func(b *driverBooks) (bool, error) {
		nodes, changed := b.ledger.volumeNodes(before, after)
		if !changed {
			return false, nil
		}
		if err := b.sync(e, func(_, name string) error { return b.ledger.SyncVolume(name) }); err != nil {
			return true, err
		}
		return p.fitsOneOf(e.pod, b, nodes), nil
	})
}

// volumeNodes are the nodes on which the event may have freed bytes.
func (l *Ledger) volumeNodes(before, after *v1.PersistentVolume) (nodes []string, changed bool) {
	var facts []volumeFact
	for _, v := range []*v1.PersistentVolume{before, after} {
		if v == nil || !isOurs(l.driver, v) {
			continue
		}
		f := newVolumeFact(l.driver, v)
		facts = append(facts, f)
		nodes = append(nodes, l.nodesOf(f)...)
	}
	switch {
	case len(facts) == 0:
		return nil, false
	case len(facts) == 2:
		was, is := facts[0], facts[1]
		offerChanged := (was.offer != nil || is.offer != nil) && before.ResourceVersion != after.ResourceVersion
		was.offer, is.offer = nil, nil
		return nodes, was != is || offerChanged
	default:
		return nodes, true
	}
}

// nodesOf are the nodes that the volume is charged to.
func (l *Ledger) nodesOf(f volumeFact) []string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var nodes []string
	for _, c := range l.chargeVolume(nil, &entry{}, &f) {
		nodes = append(nodes, c.node)
	}
	return nodes
}

func (p *LocalCapacity) afterClaim(e event) (bool, error) {
	before, after, unknown := both[v1.PersistentVolumeClaim](e)
	if unknown {
		return true, nil
	}
	return p.any(func(b *driverBooks) (bool, error) {
		if err := b.sync(e, b.ledger.SyncClaim); err != nil {
			return true, err
		}
		if after != nil && claims(e.pod, after) {
			return before == nil || claimChanged(b.ledger.driver, before, after), nil
		}
		if before == nil {
			return false, nil // a claim that comes frees nothing
		}
		nodes, perhapsAny := b.ledger.claimNodes(before, after)
		return perhapsAny || p.fitsOneOf(e.pod, b, nodes), nil
	})
}

// claims tells whether the claim is one of the pod's.
func claims(pod *v1.Pod, claim *v1.PersistentVolumeClaim) bool {
	return pod.Namespace == claim.Namespace && slices.Contains(claimsOf(pod), claim.Name)
}

func shareClaim(a, b *v1.Pod) bool {
	names := claimsOf(b)
	return a.Namespace == b.Namespace && slices.ContainsFunc(claimsOf(a), func(name string) bool { return slices.Contains(names, name) })
}

// claimsOf are the names of the pod's claims.
func claimsOf(pod *v1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, ephemeral.VolumeClaimName(pod, v))
		}
	}
	return names
}

// claimChanged tells whether the pod's own claim says anything new.
func claimChanged(driver string, before, after *v1.PersistentVolumeClaim) bool {
	was, is := newClaimFact(driver, before), newClaimFact(driver, after)
	was.version, is.version = "", ""
	return was != is || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) || before.UID != after.UID
}

// claimNodes are the nodes on which somebody else's claim may have freed bytes.
// perhapsAny: it is not known which.
func (l *Ledger) claimNodes(before, after *v1.PersistentVolumeClaim) (nodes []string, perhapsAny bool) {
	was := newClaimFact(l.driver, before)
	var is claimFact
	if after != nil {
		is = newClaimFact(l.driver, after)
	}
	if was.selectedNode != "" && (was.selectedNode != is.selectedNode || is.lost && !was.lost || is.volumeName != was.volumeName) {
		nodes = append(nodes, was.selectedNode)
	}
	if after != nil && is.requestedBytes < was.requestedBytes || after == nil && was.volumeName != "" {
		nodes = append(nodes, l.chargedNodes(claimKey(before.UID))...)
	}
	// Bound to a volume that exists, so a reservation for it has ended.
	return nodes, was.volumeName == "" && is.volumeName != "" && is.selectedNode == "" && l.isOurClass(is.class)
}

func (l *Ledger) chargedNodes(k key) []string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	e, ok := l.entries[k]
	if !ok {
		return nil
	}
	var nodes []string
	for _, c := range e.charges {
		nodes = append(nodes, c.node)
	}
	return nodes
}

func (l *Ledger) isOurClass(name string) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.classes[name].ours
}

func (p *LocalCapacity) afterPod(e event) (bool, error) {
	gone, _, unknown := both[v1.Pod](e)
	if unknown || gone == nil {
		return unknown, nil
	}
	if !p.relevant(gone) {
		return false, nil
	}
	if c := p.shared.waiting.last(e.pod.UID); c != nil && c.slotless.Load() {
		return true, nil
	}
	if shareClaim(gone, e.pod) {
		// As long as one was to go to a node, the other could count on no offer on
		// any node: see matchOffers.
		return true, nil
	}
	return p.any(func(b *driverBooks) (bool, error) {
		if hasInline(b.ledger.driver, gone) {
			if err := b.sync(e, b.ledger.SyncPod); err != nil {
				return true, err
			}
		}
		return p.fitsOneOf(e.pod, b, []string{gone.Spec.NodeName}), nil
	})
}

func (p *LocalCapacity) afterClass(e event) (bool, error) {
	before, after, unknown := both[storagev1.StorageClass](e)
	if unknown || after == nil {
		return unknown, nil
	}
	return p.any(func(b *driverBooks) (bool, error) {
		if err := b.sync(e, func(_, name string) error { return b.ledger.SyncClass(name) }); err != nil {
			return true, err
		}
		if before != nil {
			was, is := newClassFact(b.ledger.driver, before), newClassFact(b.ledger.driver, after)
			if was.ours == is.ours && was.demand == is.demand && was.immediate == is.immediate && (was.err == nil) == (is.err == nil) {
				return false, nil
			}
		}
		return b.ledger.usesClass(e.pod, after.Name)
	})
}

// usesClass tells whether one of the pod's claims is of the class.
func (l *Ledger) usesClass(pod *v1.Pod, class string) (bool, error) {
	for _, name := range claimsOf(pod) {
		claim, err := l.caches.Claims.PersistentVolumeClaims(pod.Namespace).Get(name)
		gone, err := absent(err)
		if err != nil {
			return true, err
		}
		if !gone && storagehelpers.GetPersistentVolumeClaimClass(claim) == class {
			return true, nil
		}
	}
	return false, nil
}

// any asks for each of the profile's drivers until one says yes.
func (p *LocalCapacity) any(ask func(*driverBooks) (bool, error)) (bool, error) {
	for _, b := range p.drivers {
		if yes, err := ask(b); yes || err != nil {
			return yes, err
		}
	}
	return false, nil
}
