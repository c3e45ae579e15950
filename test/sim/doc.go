// Package sim plays a load against models of a cluster that differ only in how
// the scheduler knows of the space on the nodes, and counts what goes wrong.
//
// It is a discrete-event simulation: virtual time, one thing at a time, all
// chance from a seed. The variants are in tracker.go (none), intree.go,
// extender.go and local.go; the last runs the ledger of pkg/schedplugin itself.
// All that they share is a model too: the scheduler (scheduler.go, binding.go),
// the persistent volume controller (controller.go), the provisioners
// (provisioner.go) and API clients with their limiters (client.go). Each states
// its sources; paths without a repository are of
// https://github.com/kubernetes/kubernetes/tree/v1.37.2.
//
// docs/simulator.md says how near the model comes to published measurements,
// and what it leaves out.
package sim
