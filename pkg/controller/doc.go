// Package controller looks after what no node can do for itself, because the
// node is gone or was never asked:
//
//   - PersistentVolumes and claims on lost nodes. A node is lost when the API
//     server has no Node object for it; a Node that is not ready, unreachable or
//     cordoned is not lost, whatever else is said of it.
//   - Claims that can never get a volume, which nobody else would tell why.
//
// Everything is level-triggered: [Controller] decides from what its caches hold,
// waits for the delay, reads again from the API server what it is about to
// change and whether the node is still gone, and writes on condition that
// nothing has changed since. It keeps no state of its own but in memory; a new
// process begins to count the delay anew, and so waits longer, never less.
//
// # What happens to a volume of a lost node
//
//	bound, class not opted in        its claim gets an event
//	bound, class says delete-claim   the claim is deleted
//	released, reclaim policy Delete  the PersistentVolume is deleted
//	deleted by somebody, unbound     the provisioner's finalizer is removed
//	released, reclaim policy Retain  nothing
//
// The disks are never touched. Should the node return, its driver finds logical
// volumes that had a PersistentVolume, and keeps them.
//
// # The brake
//
// When more nodes than a share of those that matter are missing at the same
// time, something else is wrong than nodes that died: nothing is changed then,
// and metrics and events say so.
package controller
