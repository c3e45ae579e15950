package reporter

import "context"

// Kind says which of this node's two objects is meant.
type Kind int

// The two objects.
const (
	KindNode Kind = iota
	KindCSINode
)

// String is the kind's name in Kubernetes, for logs and metrics.
func (k Kind) String() string {
	if k == KindCSINode {
		return "CSINode"
	}
	return "Node"
}

// Object is what the reporter needs to know of a Node or a CSINode.
type Object struct {
	// Found is false if there is no such object.
	Found           bool
	UID             string
	ResourceVersion string
	// Annotations, Labels and KubeletVersion are a Node's.
	Annotations    map[string]string
	Labels         map[string]string
	KubeletVersion string
	// Registered tells that a CSINode has an entry of the driver, and Count is
	// its allocatable count, -1 if it has none.
	Registered bool
	Count      int64
}

// Change is what to write.
type Change struct {
	// Annotations of a Node to set and to remove.
	Set    map[string]string
	Remove []string
	// Count is the allocatable count of the driver's entry of a CSINode.
	Count int64
}

// API is what the reporter needs of the API server. Both calls may block as
// long as ctx allows. Errors are those of k8s.io/apimachinery/pkg/api/errors
// where the server gave them; a missing object is no error of Get.
type API interface {
	Get(ctx context.Context, kind Kind) (Object, error)
	// Write applies the change if the object still has the resourceVersion of
	// read, and returns the object as it is then. Else nothing is changed and
	// the error is a conflict. Of a CSINode only an entry of the driver that
	// read has is changed, never added.
	Write(ctx context.Context, kind Kind, read Object, change Change) (Object, error)
}
