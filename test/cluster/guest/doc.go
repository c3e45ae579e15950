// Package guest is what runs inside a node's throwaway kernel: it makes of a bare kernel a
// node with containerd and kubelet, keeps both running as an init system does, and runs
// commands that the host asks for.
//
// Host and node share a folder by hostfs. Commands go through files in it and not through
// the network, so that a node that is cut off can still be looked into.
package guest
