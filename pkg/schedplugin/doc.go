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
// what is known of it:
//
//	reserved     a scheduling cycle has chosen a node          held in memory
//	selected     the claim's selected-node is in the API       charged to that node
//	provisioned  its PersistentVolume is visible               charged where the volume is
//
// The key is the UID of the claim (for inline volumes: the pod's UID and the
// volume's name) in all three states, so a volume is never charged twice, nor
// lost between two of them.
package schedplugin
