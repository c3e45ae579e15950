// Package orphans lets a node with real LVM lose PersistentVolumes on a real API
// server, in every way that a cluster loses them.
package orphans
