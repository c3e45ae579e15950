package schedplugin

// Reasons for which a node is refused, as they stand in the pod's status. They
// hold no figures, because the scheduler groups nodes by them; the figures are
// in the log and in the pod's event.
const (
	// ReasonInsufficientCapacity: used + requested is more than ratio × allocatable.
	ReasonInsufficientCapacity = "node(s) had not enough local volume capacity"
	// ReasonTooManyVolumes: the node's CSINode allows no more volumes of the driver.
	ReasonTooManyVolumes = "node(s) had no local volume slot left"
	// ReasonCapacityUnknown: the node has published no capacity.
	ReasonCapacityUnknown = "node(s) had not published local volume capacity"
	// ReasonCapacityUnreadable: what the node published cannot be read.
	ReasonCapacityUnreadable = "node(s) had published unreadable local volume capacity"
	// ReasonPoolMissing: the node has not the pool.
	ReasonPoolMissing = "node(s) had not the local volume pool"
	// ReasonDriverNotRegistered: the driver is not in the node's CSINode.
	ReasonDriverNotRegistered = "node(s) had not the local volume driver"
)
