// Package inspecttest has a cluster in memory for tests of what is concluded from a
// snapshot: [Cluster] answers as an API server does, page by page, and [Healthy] fills
// it with the shipped manifests and with what kubelet, the reporter and the
// provisioner write.
package inspecttest
