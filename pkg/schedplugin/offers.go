package schedplugin

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// Offers are PersistentVolumes of this driver that are bound to no claim:
// VolumeBinding takes one for a claim rather than have a new volume made. They
// are charged to their node already, so a claim that gets one needs no bytes,
// and may come to a node that is full.

// putOffers notes the volume of e as on offer, or not, on each node it is
// charged to.
func (l *Ledger) putOffers(e *entry) {
	if len(e.volumes) == 0 || e.volumes[0].claim != "" {
		return
	}
	for _, c := range e.charges {
		if e.volumes[0].offer == nil {
			l.dropOffer(c.node, e.key)
			continue
		}
		if l.offers[c.node] == nil {
			l.offers[c.node] = map[key]*v1.PersistentVolume{}
		}
		l.offers[c.node][e.key] = e.volumes[0].offer
	}
}

func (l *Ledger) dropOffer(node string, k key) {
	if len(l.offers) == 0 {
		return
	}
	delete(l.offers[node], k)
	if len(l.offers[node]) == 0 {
		delete(l.offers, node)
	}
}

// roomWithOffers tells whether the wants of one pool fit the node if
// VolumeBinding takes for them what is on offer there.
func (l *Ledger) roomWithOffers(node string, wants []want, begin, end int, what []adjustment) bool {
	matched := l.matchOffers(node, wants)
	books, requested, undecided := l.nodes[node], int64(0), false
	pool := books.pool(wants[begin].demand.pool)
	for i := begin; i < end; i++ {
		here, reserved := l.entries[wants[i].key].chargedTo(node)
		if matched[i] != "" || here && !reserved || nominated(wants[i].key, l, node, what) {
			continue
		}
		undecided = true
		if !here {
			requested = saturatingAdd(requested, wants[i].bytesOn(pool))
		}
	}
	if !undecided {
		return true
	}
	_, ok := l.room(node, books, wants[begin].demand.pool, requested, what)
	return ok
}

// matchOffers finds for each want the offer that VolumeBinding will take for
// it, with the function that VolumeBinding uses, in the same order: the smallest
// claims first. An offer that may be taken for a claim that another scheduling
// cycle has reserved does not count: which one VolumeBinding took depends on
// what its caches knew then. Nor does one that a claim says it is bound to, or
// that has changed since it was looked at. A claim that another cycle has reserved
// elsewhere may take an offer here or not, as that cycle ends: it counts on none,
// and nobody counts on one that it may take.
func (l *Ledger) matchOffers(node string, wants []want) (matched map[int]key) {
	matched = map[int]key{}
	object, err := l.caches.Nodes.Get(node)
	if err != nil {
		return matched
	}
	keys := map[string]key{}
	var volumes []*v1.PersistentVolume
	rivals := l.rivals(node, wants)
	for k, v := range l.offers[node] {
		contested := l.outdated(v) || len(l.unseen[v.Name]) > 0 || slices.ContainsFunc(rivals, func(c *v1.PersistentVolumeClaim) bool {
			return takes(c, []*v1.PersistentVolume{v}, object, nil) != nil
		})
		if !contested {
			keys[v.Name] = k
			volumes = append(volumes, v)
		}
	}
	slices.SortFunc(volumes, func(a, b *v1.PersistentVolume) int { return cmp.Compare(a.Name, b.Name) })
	excluded := map[string]*v1.PersistentVolume{}
	for _, i := range bySize(wants) {
		w := &wants[i]
		if w.claim == nil || w.selectedNode != "" || l.decided(w.key, node) || l.reservedElsewhere(w.key, node) {
			continue
		}
		if found := takes(w.claim, volumes, object, excluded); found != nil {
			excluded[found.Name] = found
			matched[i] = keys[found.Name]
		}
	}
	return matched
}

// outdated tells that the cache has another version of a volume, or none.
func (l *Ledger) outdated(v *v1.PersistentVolume) bool {
	now, err := l.caches.Volumes.Get(v.Name)
	return err != nil || now.ResourceVersion != v.ResourceVersion
}

// takes is the volume that VolumeBinding binds the claim to, nil if it has one made.
func takes(c *v1.PersistentVolumeClaim, from []*v1.PersistentVolume, node *v1.Node, excluded map[string]*v1.PersistentVolume) *v1.PersistentVolume {
	found, err := storagehelpers.FindMatchingVolume(c, from, node, excluded, true, true)
	if err != nil {
		return nil // a selector that cannot be read: VolumeBinding refuses the claim
	}
	return found
}

// rivals are the claims that other scheduling cycles have reserved on the node, as
// these saw them (a claim may be gone, and its cycle not know it), and those of
// the wants that are reserved elsewhere.
func (l *Ledger) rivals(node string, wants []want) []*v1.PersistentVolumeClaim {
	var rivals []*v1.PersistentVolumeClaim
	for i := range wants {
		if w := &wants[i]; w.claim != nil && l.reservedElsewhere(w.key, node) {
			rivals = append(rivals, w.claim)
		}
	}
	for _, h := range l.holders {
		for _, k := range h.keys {
			if slices.ContainsFunc(wants, func(w want) bool { return w.key == k }) {
				continue
			}
			for _, h := range l.entries[k].holds {
				if h.node == node && h.claim != nil {
					rivals = append(rivals, h.claim)
				}
			}
		}
	}
	return rivals
}

// reservedElsewhere tells whether a scheduling cycle has chosen another node for
// the claim, and may not have ended.
func (l *Ledger) reservedElsewhere(k key, node string) bool {
	e, ok := l.entries[k]
	return ok && slices.ContainsFunc(e.holds, func(h hold) bool { return h.node != node })
}

// decided tells whether the API says already that the volume will be on the
// node, so that VolumeBinding looks for no other. A reservation does not.
func (l *Ledger) decided(k key, node string) bool {
	here, reserved := l.entries[k].chargedTo(node)
	return here && !reserved
}

// bySize are the indexes of the wants in the order in which VolumeBinding
// looks at claims.
func bySize(wants []want) []int {
	order := make([]int, len(wants))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(wants[a].demand.requestedBytes, wants[b].demand.requestedBytes)
	})
	return order
}
