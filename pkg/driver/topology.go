package driver

import (
	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// topology is where every volume of this process is accessible: on this node.
func (d *Driver) topology() *csi.Topology {
	return &csi.Topology{Segments: map[string]string{capacity.TopologyKey(d.driverName): d.nodeName}}
}

// isHere tells whether a topology includes this node. Keys that this driver
// does not publish cannot be satisfied by it.
func (d *Driver) isHere(t *csi.Topology) bool {
	here := d.topology().GetSegments()
	for key, value := range t.GetSegments() {
		if here[key] != value {
			return false
		}
	}
	return len(t.GetSegments()) > 0
}

// checkTopology holds CreateVolume to its accessibility requirements. Only the
// requisite list binds; a preference for other nodes alone does not (CSI
// specification, TopologyRequirement).
func (d *Driver) checkTopology(r *csi.TopologyRequirement) error {
	if r == nil {
		return nil
	}
	if len(r.GetRequisite()) == 0 && len(r.GetPreferred()) == 0 {
		return topologyEmpty.errorf()
	}
	if len(r.GetRequisite()) == 0 {
		return nil
	}
	for _, t := range r.GetRequisite() {
		if d.isHere(t) {
			return nil
		}
	}
	return topologyElsewhere.errorf(d.nodeName, capacity.TopologyKey(d.driverName), d.nodeName)
}
