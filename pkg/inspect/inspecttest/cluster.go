package inspecttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/csi-local/csi-local/pkg/inspect"
)

// Cluster is an API server in memory. It is for one goroutine.
type Cluster struct {
	objects map[inspect.Kind][]runtime.Object
	// Version is that of Kubernetes.
	Version string
	// Time is the API server's clock.
	Time time.Time
	// PageSize is the most objects of a page, if that is less than what is asked for.
	PageSize int
	// Asked counts requests.
	Asked int
	// Fail are the errors of kinds.
	Fail map[inspect.Kind]error
}

var _ inspect.API = (*Cluster)(nil)

// New returns an empty cluster.
func New() *Cluster {
	return &Cluster{
		objects: map[inspect.Kind][]runtime.Object{}, Version: "v1.37.2", Fail: map[inspect.Kind]error{},
		Time: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

func kindOf(object runtime.Object) (inspect.Kind, bool) {
	switch object.(type) {
	case *v1.Node:
		return inspect.Nodes, true
	case *v1.PersistentVolume:
		return inspect.Volumes, true
	case *v1.PersistentVolumeClaim:
		return inspect.Claims, true
	case *v1.Pod:
		return inspect.Pods, true
	case *v1.Event:
		return inspect.Events, true
	case *v1.ConfigMap:
		return inspect.ConfigMaps, true
	case *storagev1.CSINode:
		return inspect.CSINodes, true
	case *storagev1.CSIDriver:
		return inspect.CSIDrivers, true
	case *storagev1.StorageClass:
		return inspect.StorageClasses, true
	case *storagev1.VolumeAttachment:
		return inspect.Attachments, true
	case *appsv1.DaemonSet:
		return inspect.DaemonSets, true
	case *appsv1.Deployment:
		return inspect.Deployments, true
	case *coordinationv1.Lease:
		return inspect.Leases, true
	case *admissionv1.ValidatingAdmissionPolicy:
		return inspect.Policies, true
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		return inspect.PolicyBindings, true
	default:
		return "", false
	}
}

// Put adds objects. Those of kinds that nobody reads are left out.
func (c *Cluster) Put(objects ...runtime.Object) {
	for _, object := range objects {
		if kind, ok := kindOf(object); ok {
			c.objects[kind] = append(c.objects[kind], object)
		}
	}
}

func nameOf(object runtime.Object) string {
	o, err := meta.Accessor(object)
	if err != nil {
		return ""
	}
	return o.GetName()
}

// Get of the test returns the object of that type and name, to be changed.
func Get[T runtime.Object](t testing.TB, c *Cluster, name string) (found T) {
	t.Helper()
	for _, objects := range c.objects {
		for _, object := range objects {
			if o, ok := object.(T); ok && nameOf(object) == name {
				return o
			}
		}
	}
	t.Fatalf("there is no %T %s", found, name)
	return found
}

// Delete removes the objects of that type and names.
func Delete[T runtime.Object](t testing.TB, c *Cluster, names ...string) {
	t.Helper()
	for _, name := range names {
		Get[T](t, c, name)
		for kind, objects := range c.objects {
			c.objects[kind] = slices.DeleteFunc(objects, func(object runtime.Object) bool {
				_, ok := object.(T)
				return ok && nameOf(object) == name
			})
		}
	}
}

// EachNode calls change for the Nodes.
func (c *Cluster) EachNode(change func(*v1.Node)) {
	for _, object := range c.objects[inspect.Nodes] {
		if node, ok := object.(*v1.Node); ok {
			change(node)
		}
	}
}

// Rename gives a node, its CSINode and its driver's pod another name.
func (c *Cluster) Rename(t testing.TB, from, to string) {
	t.Helper()
	Get[*v1.Pod](t, c, "csi-local-node-"+from).Spec.NodeName = to
	Get[*storagev1.CSINode](t, c, from).Name = to
	node := Get[*v1.Node](t, c, from)
	node.Name = to
	for label := range node.Labels {
		node.Labels[label] = to
	}
}

// EachPod calls change for the pods of users.
func (c *Cluster) EachPod(change func(*v1.Pod)) {
	for _, object := range c.objects[inspect.Pods] {
		if pod, ok := object.(*v1.Pod); ok && pod.Namespace == User {
			change(pod)
		}
	}
}

// Shuffle changes the order of all objects.
func (c *Cluster) Shuffle(seed uint64) {
	random := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // no secret
	for _, objects := range c.objects {
		random.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
	}
}

// Snapshot reads the cluster.
func (c *Cluster) Snapshot(t testing.TB, driver string) *inspect.Snapshot {
	t.Helper()
	s, err := inspect.Read(t.Context(), c, driver, inspect.DefaultMaxRequests)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ServerVersion implements [inspect.API].
func (c *Cluster) ServerVersion(context.Context) (string, error) {
	c.Asked++
	return c.Version, c.Fail["version"]
}

// Now implements [inspect.API].
func (c *Cluster) Now() time.Time { return c.Time }

// Get implements [inspect.API].
func (c *Cluster) Get(_ context.Context, kind inspect.Kind, namespace, name string) (runtime.Object, error) {
	c.Asked++
	if err := c.Fail[kind]; err != nil {
		return nil, err
	}
	for _, object := range c.objects[kind] {
		if o, err := meta.Accessor(object); err == nil && o.GetName() == name && o.GetNamespace() == namespace {
			return object.DeepCopyObject(), nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: string(kind)}, name)
}

// List implements [inspect.API]. A token is the index of the next object.
func (c *Cluster) List(_ context.Context, kind inspect.Kind, namespace string, options metav1.ListOptions) (runtime.Object, error) {
	c.Asked++
	if err := c.Fail[kind]; err != nil {
		return nil, err
	}
	selector, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return nil, err
	}
	var chosen []runtime.Object
	for _, object := range c.objects[kind] {
		o, err := meta.Accessor(object)
		if err != nil {
			return nil, err
		}
		if (namespace == "" || o.GetNamespace() == namespace) && selector.Matches(labels.Set(o.GetLabels())) && fieldsMatch(object, options.FieldSelector) {
			chosen = append(chosen, object)
		}
	}
	begin := 0
	if options.Continue != "" {
		if begin, err = strconv.Atoi(options.Continue); err != nil || begin > len(chosen) {
			return nil, fmt.Errorf("token %q", options.Continue)
		}
	}
	size := int(options.Limit)
	if size == 0 || c.PageSize > 0 && c.PageSize < size {
		size = max(c.PageSize, 1)
	}
	page := &v1.List{}
	end := min(begin+size, len(chosen))
	for _, object := range chosen[begin:end] {
		page.Items = append(page.Items, runtime.RawExtension{Object: object.DeepCopyObject()})
	}
	if end < len(chosen) {
		page.Continue = strconv.Itoa(end)
	}
	return page, nil
}

// fieldsMatch knows the fields of events.
func fieldsMatch(object runtime.Object, selector string) bool {
	e, ok := object.(*v1.Event)
	if selector == "" || !ok {
		return selector == ""
	}
	for _, term := range strings.Split(selector, ",") {
		field, value, _ := strings.Cut(term, "=")
		if is := map[string]string{"involvedObject.kind": e.InvolvedObject.Kind, "source": e.Source.Component}; is[field] != value {
			return false
		}
	}
	return true
}
