// Package testbed starts a real etcd and a real Kubernetes API server, and a
// controller manager if a test needs one, on this machine's loopback address.
//
// The programs are built from Go modules (the nested module in kube), because
// nothing but Go is needed for that, and are kept in the user's cache folder:
// the first time takes 10 to 15 minutes on two cores, later a cluster is ready
// in about five seconds. Whoever has the programs already names their folder in
// KUBE_BIN_DIR.
//
// A cluster belongs to the process that started it: its programs are killed when
// that process ends, however it ends. What they wrote is removed with
// [Cluster.Stop], but for the logs if the test has failed.
//
// The API server writes an audit log with what was asked and what was answered
// of Nodes and CSINodes, so that a test can count writes, and can tell whether
// one has overwritten something unseen: see [Cluster.Audit].
package testbed
