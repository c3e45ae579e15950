// Package node tests the node service of pkg/driver on real LVM, real file systems
// and the kernel's own mount table, over gRPC, in a kernel of its own.
package node
