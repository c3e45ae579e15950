// Package orphans finds the volumes of one node whose PersistentVolume does not
// exist, and keeps them out of what the node publishes.
//
// A provisioner gives a PersistentVolume the name that it gave CreateVolume, so
// the name in a volume's tag is enough to ask the API server for it. Two kinds
// of orphans are told apart:
//
//   - leaked: a PersistentVolume was never seen, and no pod ever used the volume.
//     Nobody's data is in it. It is deleted after a grace period, unless the
//     settings say keep.
//   - retained: a PersistentVolume was seen, or a pod used the volume. Its data
//     is somebody's. It is kept until an operator decides.
//
// # What decides
//
// A [Keeper] asks for one PersistentVolume at a time, by name, first from the API
// server's cache. Only "it is there" is believed of the cache. That a
// PersistentVolume is not there counts only if a consistent read says so, and the
// Node object of this node is there and the one that it was. Any error decides
// nothing. When most volumes that had a PersistentVolume lose theirs at once,
// that looks like an API server that was restored from a backup, and nothing is
// decided for a while. While such a doubt lasts nothing is deleted.
//
// What is found out is kept in the volume's LVM tags, by the [Node], so that it
// holds after a restart. How long a PersistentVolume has been missing is counted
// in this process, by a clock that nobody sets.
//
// The package knows neither LVM nor Kubernetes' client; see package apiserver for the latter.
package orphans
