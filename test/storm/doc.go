// Package storm creates thousands of pods with local volumes at once, on a real
// etcd, API server, controller manager and scheduler, and counts what goes wrong.
//
// The capacity of all nodes together is exactly what the pods ask for, so that one
// byte promised twice is a volume that cannot be made. Nodes are objects only. What
// would run on them is simulated as far as it matters to the scheduler: see
// [Pool] for the driver, provisioner.go for csi-provisioner and for the capacity
// objects that it publishes, observer.go for kubelet. Everything else is real.
//
// [Run] is one storm. Its [Options] choose who knows of capacity: the plugin
// LocalCapacity, the in-tree tracking by CSIStorageCapacity objects, or nobody. All
// three have the same pods, nodes, simulated parts and limits on requests.
// [Throughput] compares the two schedulers with pods that have no volumes.
package storm
