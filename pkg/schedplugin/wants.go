package schedplugin

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// Wants are the volumes of one driver that a pod needs and that are not there
// yet. The zero value is none.
type Wants struct {
	list []want // sorted by pool, then by size
}

// Len is how many volumes are wanted.
func (w Wants) Len() int { return len(w.list) }

// want is one volume that a pod needs and that is not there yet.
type want struct {
	key    key
	demand demand
	// entry is what the ledger had for the key; it may have been dropped since.
	entry *entry
	// sizes are what it takes from pools of the kinds that there are.
	sizes []sizeIn
	// selectedNode is the node that the claim names already, if it does.
	selectedNode string
	// claim is the object in the cache; nil for inline volumes.
	claim *v1.PersistentVolumeClaim
	// ephemeral: the volume goes with the pod.
	ephemeral bool
}

// sizeIn is what a volume takes from pools in which volumes are made so.
type sizeIn struct {
	made  capacity.PoolFacts
	bytes int64
}

// maxSizes bounds a want's sizes; a cluster has one kind of pool, or a few.
const maxSizes = 8

// bytesOn is what the wanted volume takes from the pool, which may be nil.
func (w *want) bytesOn(pool *poolBook) int64 {
	var made capacity.PoolFacts
	if pool != nil {
		made = pool.made
	}
	for i := range w.sizes {
		if w.sizes[i].made == made {
			return w.sizes[i].bytes
		}
	}
	return w.demand.poolBytes(made)
}

// Refusal says why no node at all can run the pod.
type Refusal struct {
	Reason Reason
	// Detail names the objects concerned.
	Detail string
}

// String is for the pod's status: there is one refusal for all nodes, so it may
// name objects.
func (r Refusal) String() string { return fmt.Sprintf("%s: %s", r.Reason, r.Detail) }

// Wants reads off what volumes of the driver the pod needs. Volumes that exist
// are not wanted, nor are those of other drivers. It brings the books up to
// date with the pod's own claims first.
func (l *Ledger) Wants(pod *v1.Pod) (Wants, *Refusal, error) {
	var w Wants
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		var found *want
		var refusal *Refusal
		var err error
		switch {
		case isInline(l.driver, volume):
			found, refusal = inlineWant(pod, volume)
		case volume.PersistentVolumeClaim != nil:
			found, refusal, err = l.claimWant(pod, volume.PersistentVolumeClaim.ClaimName, false)
		case volume.Ephemeral != nil:
			found, refusal, err = l.claimWant(pod, ephemeral.VolumeClaimName(pod, volume), true)
		}
		if err != nil || refusal != nil {
			return Wants{}, refusal, err
		}
		// A claim may be mounted twice in one pod.
		if found != nil && !slices.ContainsFunc(w.list, func(other want) bool { return other.key == found.key }) {
			w.list = append(w.list, *found)
		}
	}
	slices.SortStableFunc(w.list, func(a, b want) int {
		return cmp.Or(cmp.Compare(a.demand.pool, b.demand.pool), cmp.Compare(a.demand.requestedBytes, b.demand.requestedBytes), cmp.Compare(a.key, b.key))
	})
	return w, l.lookUp(w.list), nil
}

// lookUp finds in the books what is the same for all nodes. It refuses pools that
// no node has.
func (l *Ledger) lookUp(wants []want) *Refusal {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for i := range wants {
		w := &wants[i]
		t, ok := l.totals[w.demand.pool]
		if !ok || t.nodes == 0 {
			return &Refusal{Reason: ReasonPoolUnknown, Detail: w.demand.pool}
		}
		w.demand.pool, w.entry = t.name, l.entries[w.key]
		for made := range l.kinds {
			if len(w.sizes) < maxSizes {
				w.sizes = append(w.sizes, sizeIn{made: made, bytes: w.demand.poolBytes(made)})
			}
		}
	}
	return nil
}

// entryFor is what is known of the wanted volume; nil if nothing is.
func (l *Ledger) entryFor(w *want) *entry {
	if w.entry != nil && !w.entry.dropped {
		return w.entry
	}
	return l.entries[w.key]
}

func inlineWant(pod *v1.Pod, volume *v1.Volume) (*want, *Refusal) {
	d, err := inlineDemand(volume.CSI.VolumeAttributes)
	if err != nil {
		return nil, &Refusal{Reason: ReasonInlineUnreadable, Detail: fmt.Sprintf("volume %s: %v", volume.Name, err)}
	}
	return &want{key: inlineKey(pod.UID, volume.Name), demand: d, ephemeral: true}, nil
}

// claimWant judges one claim of the pod by what its specification says; its
// phase lags behind.
func (l *Ledger) claimWant(pod *v1.Pod, name string, owned bool) (*want, *Refusal, error) {
	claim, err := l.caches.Claims.PersistentVolumeClaims(pod.Namespace).Get(name)
	gone, err := absent(err)
	switch {
	case err != nil:
		return nil, nil, err
	case gone:
		return nil, &Refusal{Reason: ReasonClaimMissing, Detail: name}, nil
	case owned && ephemeral.VolumeIsForPod(pod, claim) != nil:
		return nil, &Refusal{Reason: ReasonClaimNotOwned, Detail: name}, nil
	}
	className := storagehelpers.GetPersistentVolumeClaimClass(claim)
	if claim.Spec.VolumeName != "" || className == "" {
		return nil, nil, nil // bound, or to be bound to a volume that exists
	}
	class, known, err := l.class(className)
	switch {
	case err != nil:
		return nil, nil, err
	case !known || class.gone:
		return nil, &Refusal{Reason: ReasonClassMissing, Detail: fmt.Sprintf("%s, of claim %s", className, name)}, nil
	case !class.ours:
		return nil, nil, nil
	case class.err != nil:
		return nil, &Refusal{Reason: ReasonClassUnreadable, Detail: fmt.Sprintf("%s: %v", className, class.err)}, nil
	case class.immediate:
		return nil, &Refusal{Reason: ReasonImmediate, Detail: className}, nil
	case claim.DeletionTimestamp != nil || claim.Status.Phase == v1.ClaimLost:
		return nil, &Refusal{Reason: ReasonClaimUnusable, Detail: name}, nil
	}
	if err := l.SyncClaim(claim.Namespace, claim.Name); err != nil {
		return nil, nil, err
	}
	fact := newClaimFact(l.driver, claim)
	d := class.demand.withClaim(fact.requestedBytes, fact.block)
	return &want{key: claimKey(claim.UID), demand: d, selectedNode: fact.selectedNode,
		claim: claim, ephemeral: fact.ephemeral}, nil, nil
}

// class is the StorageClass as the cache has it now.
func (l *Ledger) class(name string) (fact classFact, known bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.syncClass(name); err != nil {
		return classFact{}, false, err
	}
	fact, known = l.classes[name]
	return fact, known, nil
}

// claimIsOurs tells whether a claim is, or will be, a volume of this driver, and
// by which key.
func (l *Ledger) claimIsOurs(name types.NamespacedName) (key, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	uid, ok := l.claimNames[name]
	if !ok {
		return "", false
	}
	e, ok := l.entries[claimKey(uid)]
	if !ok {
		return "", false
	}
	if len(e.volumes) > 0 || len(e.charges) > 0 {
		return claimKey(uid), true
	}
	return claimKey(uid), e.claim != nil && !e.elsewhere && l.classes[e.claim.class].ours
}
