package schedplugin

import (
	"encoding/json"
	"maps"
	"strconv"

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
	// extentSizes are the pools' extents in bytes, where the node says so.
	extentSizes map[string]int64
}

// newNodeFact reads a Node. What was read before is taken over where the
// annotations have not changed, because Nodes change often and these do not.
func newNodeFact(driver string, n *v1.Node, before nodeFact) nodeFact {
	value, published := n.Annotations[capacity.PoolsAnnotation(driver)]
	f := nodeFact{hostname: n.Labels[v1.LabelHostname], pools: value, report: n.Annotations[capacity.ReportAnnotation(driver)], published: published}
	if f.report == before.report {
		f.extentSizes = before.extentSizes
	} else {
		f.extentSizes = extentSizes(f.report)
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

// extentSizes reads the field of that name of the capacity report, pool name to
// bytes as a decimal string. What is not there or cannot be right is left out:
// the default is assumed then.
func extentSizes(report string) map[string]int64 {
	if report == "" || len(report) > capacity.MaxAnnotationBytes {
		return nil
	}
	var fields struct {
		ExtentSizes map[string]string `json:"extentSizes"`
	}
	if json.Unmarshal([]byte(report), &fields) != nil {
		return nil
	}
	var sizes map[string]int64
	for pool, text := range fields.ExtentSizes {
		size, err := strconv.ParseInt(text, 10, 64)
		if err != nil || size <= 0 || size%512 != 0 || size == defaultExtentSizeBytes {
			continue
		}
		if sizes == nil {
			sizes = map[string]int64{}
		}
		sizes[pool] = size
	}
	return sizes
}

// publishesLike tells whether two nodes say the same of their pools.
func (f nodeFact) publishesLike(other nodeFact) bool {
	return f.published == other.published && f.pools == other.pools && maps.Equal(f.extentSizes, other.extentSizes)
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
