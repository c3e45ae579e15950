package inspect

import (
	"encoding/json"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// Node is what a Node and its CSINode say.
type Node struct {
	Name string
	// Hosts are all the names that a volume may have for the node.
	Hosts []string
	// Ready and ReadyChanged are the condition of that name.
	Ready          bool
	ReadyChanged   time.Time
	KubeletVersion string

	// HasPools tells that the pools' annotation is there.
	HasPools bool
	// Pools are the published bytes that can be read, by pool.
	Pools map[string]int64
	// BadPools are the pools whose figure cannot be read, and PoolsErr is set if
	// nothing of the annotation can.
	BadPools map[string]error
	PoolsErr error
	// PoolsWriter is the field manager that changed the annotation last, "" if the
	// Node does not tell.
	PoolsWriter string
	// HasReport tells that the report's annotation is there; Report is what it says
	// unless ReportErr is set. Made are the facts about pools that can be read of it.
	HasReport bool
	Report    capacity.Report
	ReportErr error
	Made      map[string]capacity.PoolFacts
	// Paused: an operator has pinned what is published. Unselected: the Node's labels are
	// not those of --publish-selector, so it is pinned as well, and that is meant.
	Paused, Unselected bool

	// Registered tells that the driver is in the CSINode.
	Registered bool
	// Slots is the number of volumes that the CSINode allows, -1 if it says none.
	Slots int64
}

func newNode(driverName string, selector labels.Selector, n *v1.Node) Node {
	out := Node{Name: n.Name, Hosts: []string{n.Name}, KubeletVersion: n.Status.NodeInfo.KubeletVersion, Slots: -1}
	for _, label := range []string{v1.LabelHostname, capacity.TopologyKey(driverName)} {
		if host := n.Labels[label]; host != "" && !slices.Contains(out.Hosts, host) {
			out.Hosts = append(out.Hosts, host)
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			out.Ready, out.ReadyChanged = c.Status == v1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	key := capacity.PoolsAnnotation(driverName)
	value, ok := n.Annotations[key]
	if out.HasPools = ok; ok {
		out.Pools, out.BadPools, out.PoolsErr = capacity.DecodePools(value)
		out.PoolsWriter = annotationWriter(n.ManagedFields, key)
	}
	report, ok := n.Annotations[capacity.ReportAnnotation(driverName)]
	if out.HasReport = ok; ok {
		out.Report, out.ReportErr = capacity.DecodeReport(report)
		out.Made = capacity.DecodePoolFacts(report)
	}
	pause := n.Annotations[capacity.PauseAnnotation(driverName)]
	out.Paused = pause != "" && pause != "false"
	out.Unselected = selector != nil && !selector.Matches(labels.Set(n.Labels))
	return out
}

// annotationWriter is the manager of the newest write that set the annotation.
func annotationWriter(entries []metav1.ManagedFieldsEntry, key string) string {
	writer, newest := "", time.Time{}
	for _, entry := range entries {
		if entry.Subresource != "" || entry.FieldsV1 == nil || entry.Time == nil {
			continue
		}
		var fields struct {
			Metadata struct {
				Annotations map[string]json.RawMessage `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue // of a form that is not known yet
		}
		if _, set := fields.Metadata.Annotations["f:"+key]; set && (writer == "" || entry.Time.After(newest)) {
			writer, newest = entry.Manager, entry.Time.Time
		}
	}
	return writer
}

// register fills in what the CSINode says.
func (n *Node) register(driverName string, c *storagev1.CSINode) {
	for i := range c.Spec.Drivers {
		d := &c.Spec.Drivers[i]
		if d.Name != driverName {
			continue
		}
		n.Registered = true
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			n.Slots = int64(*d.Allocatable.Count)
		}
	}
}
