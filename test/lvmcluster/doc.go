// Package lvmcluster is for tests of a node with real LVM that talks to a real API server.
//
// The node is the throwaway kernel of test/vm (or this host, where it has device mapper),
// the control plane is test/testbed's. The control plane runs outside of the kernel, which
// has one processor only, and both are in a network of their own. Tests run inside, beside
// LVM; what they need of the outside they ask for by HTTP: see [Cluster].
//
// A package's TestMain calls [Main]; its tests call [Connect].
package lvmcluster
