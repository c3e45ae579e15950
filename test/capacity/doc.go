// Package capacity holds what a node publishes to what LVM says: a real `csi-local node`
// process with its reporter, real LVM, and a real API server. What should be published is
// computed here, from what lvs, vgs and pvs print, and by no code of the driver's.
package capacity
