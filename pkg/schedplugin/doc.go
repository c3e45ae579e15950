// Package schedplugin is the kube-scheduler plugin LocalCapacity: it places pods
// with local volumes where their pools have room, and never promises the same
// bytes twice.
//
// # The ledger
//
// A [Ledger] keeps, for one driver, the books of every pool on every node: what
// the node published as allocatable, and what is charged against it. It is built
// from API objects alone (plus the reservations of scheduling cycles that have
// not ended), so a restart rebuilds it.
//
// The ledger is level-triggered. An event says only which object to look at; the
// ledger reads that object from the informer's cache, under its own lock, and
// replaces what it knew of it. Duplicated, re-ordered and missed events (and
// tombstones, which need no more than the name) therefore cannot matter: the
// books are a function of what the caches hold, not of the way they got there.
//
// Every volume has one entry, and an entry is charged by one pure function of
// what is known of it, chargesOf:
//
//	reserved     a scheduling cycle has chosen a node          held in memory
//	selected     the claim's selected-node is in the API       charged to that node
//	provisioned  its PersistentVolume is visible               charged where the volume is
//
// The key is the UID of the claim (for inline volumes: the pod's UID and the
// volume's name) in all three states, so a volume is never charged twice, nor
// lost between two of them.
//
// # Reservations
//
// A reservation is held until the API tells of the claim. Everything a scheduling
// cycle writes is based on the claim as the cache had it when the cycle reserved,
// or older; so once the cache has another version of the claim, the cycle has
// either written, or can write nothing but a conflict. A cycle that failed before
// Permit has written nothing, and its reservation is undone at once. After
// Permit, it stays until the cache has another version or the API was asked
// (settler.go, the only place that reads the API).
//
// A claim that is deleted while a volume may be being made for it stays charged
// until its PersistentVolume is seen, or the API says that there is none.
//
// # Beside VolumeBinding
//
// VolumeBinding keeps choosing volumes, writing selected-node and waiting. What it
// will choose is worked out with its own helper function where it matters: a
// PersistentVolume that is on offer lets a claim onto a node that is full
// (offers.go).
//
// # What remains
//
// CreateVolume answers ResourceExhausted, and the pod is scheduled anew, if
//
//   - another scheduler writes selected-node without this one's knowledge;
//   - a volume is extended, or a class is deleted and made anew with other
//     parameters, between two looks at the cache;
//   - the scheduler restarts while a volume is made for a claim whose RAID1 class,
//     or which itself, was deleted;
//   - VolumeBinding's caches lag behind these by an event that offers a volume or
//     binds a claim, and it has a volume made on a full node instead;
//   - the provisioner takes longer than volumeDelay for a claim that was deleted;
//   - something else than this driver allocates from the pool, before the node
//     publishes a smaller figure.
//
// # Reading the source
//
// ledger.go, books.go (the rule), sync.go (events), fits.go (the decision),
// holds.go (reservations); then plugin.go and one file for each extension point;
// property_test.go and the world_*_test.go beside it for what must hold.
package schedplugin
