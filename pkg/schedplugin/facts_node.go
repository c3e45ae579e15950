package schedplugin

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// nodeFact is what a Node says of its pools.
type nodeFact struct {
	hostname string
	// pools and report are the annotations as they stand.
	pools, report string
	// published tells that the annotation is there.
	published bool
	// allocatable are the pools' bytes; bad are the pools whose figure cannot
	// be read, and err is set if nothing of the annotation can.
	allocatable map[string]int64
	bad         map[string]error
	err         error
	// made says how volumes are made in a pool, where that is unusual.
	made map[string]capacity.PoolFacts
}

// newNodeFact reads a Node. What was read before is taken over where the
// annotations have not changed, because Nodes change often and these do not.
func newNodeFact(driver string, n *v1.Node, before nodeFact) nodeFact {
	value, published := n.Annotations[capacity.PoolsAnnotation(driver)]
	f := nodeFact{hostname: n.Labels[v1.LabelHostname], pools: value, report: n.Annotations[capacity.ReportAnnotation(driver)], published: published}
	if f.report == before.report {
		f.made = before.made
	} else {
		f.made = unusual(capacity.DecodePoolFacts(f.report))
	}
	switch {
	case !published:
	case before.published && before.pools == value:
		f.allocatable, f.bad, f.err = before.allocatable, before.bad, before.err
	default:
		f.allocatable, f.bad, f.err = capacity.DecodePools(value)
	}
	return f
}

// unusual leaves out what would be assumed anyway.
func unusual(facts map[string]capacity.PoolFacts) map[string]capacity.PoolFacts {
	for pool, f := range facts {
		if f.ExtentSizeBytes == defaultExtentSizeBytes {
			f.ExtentSizeBytes = 0
		}
		if f.Filesystem == defaultFilesystem {
			f.Filesystem = ""
		}
		if facts[pool] = f; f == (capacity.PoolFacts{}) {
			delete(facts, pool)
		}
	}
	return facts
}

// publishesLike tells whether two nodes say the same of their pools.
func (f nodeFact) publishesLike(other nodeFact) bool {
	return f.published == other.published && f.pools == other.pools && maps.Equal(f.made, other.made)
}

// attachable is the volume count that the node's CSINode gives the driver.
type attachable struct {
	registered bool
	// count is the most volumes, -1 if there is no limit.
	count int64
}

func newAttachable(driver string, n *storagev1.CSINode) attachable {
	for i := range n.Spec.Drivers {
		d := &n.Spec.Drivers[i]
		if d.Name != driver {
			continue
		}
		if d.Allocatable == nil || d.Allocatable.Count == nil {
			return attachable{registered: true, count: -1}
		}
		return attachable{registered: true, count: int64(*d.Allocatable.Count)}
	}
	return attachable{}
}
