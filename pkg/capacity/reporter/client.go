package reporter

import (
	"context"
	"encoding/json"
	"errors"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
)

// Client is [API] on a Kubernetes client.
type Client struct {
	// Kubernetes must be allowed to get, watch and patch this one Node and CSINode.
	Kubernetes kubernetes.Interface
	NodeName   string
	DriverName string
}

var _ API = Client{}

// Get reads the object from the API server.
func (c Client) Get(ctx context.Context, kind Kind) (Object, error) {
	if kind == KindCSINode {
		csiNode, err := c.Kubernetes.StorageV1().CSINodes().Get(ctx, c.NodeName, metav1.GetOptions{})
		return foundOrNot(c.csiNodeObject(csiNode), err)
	}
	node, err := c.Kubernetes.CoreV1().Nodes().Get(ctx, c.NodeName, metav1.GetOptions{})
	return foundOrNot(nodeObject(node), err)
}

func foundOrNot(object Object, err error) (Object, error) {
	switch {
	case apierrors.IsNotFound(err):
		return Object{}, nil
	case err != nil:
		return Object{}, err
	}
	return object, nil
}

// errUnread: a write needs the resourceVersion of what was read.
var errUnread = errors.New("write without a resourceVersion that was read")

// Write patches the object. The resourceVersion in the patch is what makes it
// conditional: the API server answers 409 if the object has another one. The
// lists of a CSINode are merged by the drivers' names, so other drivers'
// entries are not in the patch.
func (c Client) Write(ctx context.Context, kind Kind, read Object, change Change) (Object, error) {
	if !read.Found || read.ResourceVersion == "" {
		return Object{}, errUnread
	}
	if kind == KindCSINode {
		return c.writeCSINode(ctx, read, change.Count)
	}
	annotations := map[string]*string{}
	for key, value := range change.Set {
		annotations[key] = &value
	}
	for _, key := range change.Remove {
		annotations[key] = nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": read.ResourceVersion, "annotations": annotations}})
	if err != nil {
		return Object{}, err
	}
	node, err := c.Kubernetes.CoreV1().Nodes().Patch(ctx, c.NodeName, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: c.DriverName})
	if err != nil {
		return Object{}, err
	}
	return nodeObject(node), nil
}

// errUnregistered: kubelet adds the entry, nobody else.
var errUnregistered = errors.New("the CSINode has no entry of the driver")

func (c Client) writeCSINode(ctx context.Context, read Object, count int64) (Object, error) {
	if !read.Registered {
		return Object{}, errUnregistered
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": read.ResourceVersion},
		"spec":     map[string]any{"drivers": []any{map[string]any{"name": c.DriverName, "allocatable": map[string]any{"count": count}}}},
	})
	if err != nil {
		return Object{}, err
	}
	csiNode, err := c.Kubernetes.StorageV1().CSINodes().Patch(ctx, c.NodeName, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: c.DriverName})
	if err != nil {
		return Object{}, err
	}
	return c.csiNodeObject(csiNode), nil
}

// ServerVersion is made for Options.ServerVersion.
func (c Client) ServerVersion(ctx context.Context) (string, error) {
	info, err := discovery.ToServerVersionInterfaceWithContext(c.Kubernetes.Discovery()).ServerVersionWithContext(ctx)
	if err != nil {
		return "", err
	}
	return info.GitVersion, nil
}

func nodeObject(node *v1.Node) Object {
	if node == nil {
		return Object{}
	}
	return Object{
		Found: true, UID: string(node.UID), ResourceVersion: node.ResourceVersion,
		Annotations: node.Annotations, Labels: node.Labels, KubeletVersion: node.Status.NodeInfo.KubeletVersion,
	}
}

func (c Client) csiNodeObject(csiNode *storagev1.CSINode) Object {
	if csiNode == nil {
		return Object{}
	}
	object := Object{Found: true, UID: string(csiNode.UID), ResourceVersion: csiNode.ResourceVersion, Count: -1}
	for i := range csiNode.Spec.Drivers {
		d := &csiNode.Spec.Drivers[i]
		if d.Name != c.DriverName {
			continue
		}
		object.Registered = true
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			object.Count = int64(*d.Allocatable.Count)
		}
	}
	return object
}
