// Package inspect reads all that a cluster says of one driver into one
// [Snapshot]: nodes and what they publish, classes, volumes, claims, the pods
// that use them, and the parts of csi-local themselves. What is concluded from it
// is for others (pkg/status, pkg/doctor), which need no API server.
//
// It only gets and lists. Lists come in pages, nothing is watched, and of each
// page only what belongs to the driver is kept, so that the memory it takes
// grows with the driver's volumes and not with the cluster's pods. The number of
// requests is bounded, and told.
package inspect
