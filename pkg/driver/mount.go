package driver

// Mounter is what the node service needs of the operating system's mounts.
type Mounter interface{}
