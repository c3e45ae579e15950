package reporter

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apimachinery/pkg/watch"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/csi-local/csi-local/pkg/capacity"
)

const (
	testDriver = "local.example"
	testNode   = "n1"
)

// fakeServer holds one Node and one CSINode behind client-go's fake clientset,
// with the API server's rules about resourceVersions: one counter for all
// objects, and a patch with another version than the object's is a conflict.
type fakeServer struct {
	clientset *fake.Clientset

	mu       sync.Mutex
	version  int64
	node     *v1.Node
	csiNode  *storagev1.CSINode
	watchers map[string][]*watch.FakeWatcher
	// before fails requests without an effect, after lets them happen and
	// loses the answer.
	before, after func(verb, resource string) error
	// hold tells whether a patch gets no answer now; then it may be applied later.
	hold func(kind Kind, patch []byte) bool
	// wrote is called with each change a patch made, under mu.
	wrote    func(kind Kind)
	attempts map[Kind]int
	writes   map[Kind]int
	// blind counts patches that would have overwritten something unseen.
	blind     int
	selectors map[string]bool // the field selectors of lists and watches
}

func newFakeServer() *fakeServer {
	s := &fakeServer{
		clientset: fake.NewClientset(), version: 1,
		attempts: map[Kind]int{}, writes: map[Kind]int{}, watchers: map[string][]*watch.FakeWatcher{}, selectors: map[string]bool{},
	}
	s.node = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: testNode, UID: "u1", ResourceVersion: "1", Annotations: map[string]string{"other": "kept"}}}
	s.setVersions("v1.37.2", "v1.37.2")
	s.csiNode = &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: testNode, UID: "u2", ResourceVersion: "1"},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: "other.example", NodeID: testNode, Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(7))}},
			{Name: testDriver, NodeID: testNode, Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(100))}},
		}},
	}
	s.clientset.PrependReactor("*", "*", s.react)
	s.clientset.PrependWatchReactor("*", s.reactWatch)
	return s
}

// setVersions are those of the API server and of the node's kubelet.
func (s *fakeServer) setVersions(apiServer, kubelet string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clientset.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &version.Info{GitVersion: apiServer}
	s.changeNode(func(n *v1.Node) { n.Status.NodeInfo.KubeletVersion = kubelet })
}

func (s *fakeServer) client() Client {
	return Client{Kubernetes: s.clientset, NodeName: testNode, DriverName: testDriver}
}

func (s *fakeServer) react(action clienttesting.Action) (bool, runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	verb, resource := action.GetVerb(), action.GetResource().Resource
	if resource == "version" {
		if s.before != nil {
			return true, nil, s.before(verb, resource)
		}
		return true, nil, nil
	}
	kind := KindNode
	if resource == "csinodes" {
		kind = KindCSINode
	}
	if verb == "patch" {
		s.attempts[kind]++
	}
	if s.before != nil {
		if err := s.before(verb, resource); err != nil {
			return true, nil, err
		}
	}
	var object runtime.Object
	var err error
	switch verb {
	case "get":
		object, err = s.get(kind)
	case "list":
		s.selectors[resource+" "+action.(clienttesting.ListAction).GetListRestrictions().Fields.String()] = true
		object = s.list(kind)
	case "patch":
		patch := action.(clienttesting.PatchAction).GetPatch()
		if s.hold != nil && s.hold(kind, patch) {
			return true, nil, context.DeadlineExceeded
		}
		object, err = s.patch(kind, patch)
	}
	if err == nil && s.after != nil {
		err = s.after(verb, resource)
	}
	if err != nil {
		return true, nil, err
	}
	return true, object, nil
}

func resourceOf(kind Kind) schema.GroupResource {
	if kind == KindCSINode {
		return schema.GroupResource{Group: "storage.k8s.io", Resource: "csinodes"}
	}
	return schema.GroupResource{Resource: "nodes"}
}

func (s *fakeServer) get(kind Kind) (runtime.Object, error) {
	switch {
	case kind == KindNode && s.node != nil:
		return s.node.DeepCopy(), nil
	case kind == KindCSINode && s.csiNode != nil:
		return s.csiNode.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(resourceOf(kind), testNode)
}

func (s *fakeServer) list(kind Kind) runtime.Object {
	meta := metav1.ListMeta{ResourceVersion: strconv.FormatInt(s.version, 10)}
	if kind == KindCSINode {
		l := &storagev1.CSINodeList{ListMeta: meta}
		if s.csiNode != nil {
			l.Items = append(l.Items, *s.csiNode.DeepCopy())
		}
		return l
	}
	l := &v1.NodeList{ListMeta: meta}
	if s.node != nil {
		l.Items = append(l.Items, *s.node.DeepCopy())
	}
	return l
}

// patch understands the two patches that the reporter makes, and no others.
func (s *fakeServer) patch(kind Kind, text []byte) (runtime.Object, error) {
	var p struct {
		Metadata struct {
			ResourceVersion string             `json:"resourceVersion"`
			Annotations     map[string]*string `json:"annotations"`
		} `json:"metadata"`
		Spec struct {
			Drivers []storagev1.CSINodeDriver `json:"drivers"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	object, err := s.get(kind)
	if err != nil {
		return nil, err
	}
	meta := object.(metav1.Object)
	if p.Metadata.ResourceVersion == "" {
		s.blind++
	}
	if p.Metadata.ResourceVersion != meta.GetResourceVersion() {
		return nil, apierrors.NewConflict(resourceOf(kind), testNode, nil)
	}
	if kind == KindNode {
		s.changeNode(func(n *v1.Node) {
			for key, value := range p.Metadata.Annotations {
				if value == nil {
					delete(n.Annotations, key)
				} else {
					n.Annotations[key] = *value
				}
			}
		})
	} else {
		s.changeCSINode(func(n *storagev1.CSINode) {
			for _, d := range p.Spec.Drivers {
				for i := range n.Spec.Drivers {
					if n.Spec.Drivers[i].Name == d.Name {
						n.Spec.Drivers[i].Allocatable = d.Allocatable
					}
				}
			}
		})
	}
	s.writes[kind]++
	if s.wrote != nil {
		s.wrote(kind)
	}
	return s.get(kind)
}

// changeNode and changeCSINode are writes of anybody, under mu.
func (s *fakeServer) changeNode(change func(*v1.Node)) {
	n := s.node.DeepCopy()
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	change(n)
	s.version++
	n.ResourceVersion = strconv.FormatInt(s.version, 10)
	s.node = n
	for _, w := range s.watchers["nodes"] {
		w.Modify(n.DeepCopy())
	}
}

func (s *fakeServer) changeCSINode(change func(*storagev1.CSINode)) {
	n := s.csiNode.DeepCopy()
	change(n)
	s.version++
	n.ResourceVersion = strconv.FormatInt(s.version, 10)
	s.csiNode = n
	for _, w := range s.watchers["csinodes"] {
		w.Modify(n.DeepCopy())
	}
}

// annotate is a person with kubectl; an empty value removes.
func (s *fakeServer) annotate(key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changeNode(func(n *v1.Node) {
		n.Annotations[key] = value
		if value == "" {
			delete(n.Annotations, key)
		}
	})
}

func (s *fakeServer) reactWatch(action clienttesting.Action) (bool, watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource := action.GetResource().Resource
	s.selectors[resource+" "+action.(clienttesting.WatchAction).GetWatchRestrictions().Fields.String()] = true
	if s.before != nil {
		if err := s.before("watch", resource); err != nil {
			return true, nil, err
		}
	}
	w := watch.NewFakeWithChanSize(1000, false)
	s.watchers[resource] = append(s.watchers[resource], w)
	return true, w, nil
}

// annotation returns what stands on the Node.
func (s *fakeServer) annotation(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node == nil {
		return ""
	}
	return s.node.Annotations[key]
}

func (s *fakeServer) pools() string { return s.annotation(capacity.PoolsAnnotation(testDriver)) }

func (s *fakeServer) count() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client().csiNodeObject(s.csiNode).Count
}

func (s *fakeServer) written(kind Kind) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes[kind]
}

func (s *fakeServer) tried(kind Kind) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempts[kind]
}

func (s *fakeServer) failWith(before, after func(verb, resource string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}
