package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// Reader asks the API server itself, past all caches. An object that is not
// there is an error that matches apierrors.IsNotFound.
type Reader interface {
	Volume(ctx context.Context, name string) (*v1.PersistentVolume, error)
	Claim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error)
	Class(ctx context.Context, name string) (*storagev1.StorageClass, error)
	// NodeGone tells whether no Node has that name, that hostname label or that
	// topology label.
	NodeGone(ctx context.Context, host string) (bool, error)
}

// Writer changes objects on condition that they are what was read: the same UID
// and resourceVersion. Otherwise the error matches apierrors.IsConflict (or
// IsNotFound), and nothing is changed.
type Writer interface {
	// RemoveFinalizer takes the provisioner's finalizer off a PersistentVolume.
	RemoveFinalizer(ctx context.Context, v *v1.PersistentVolume) error
	DeleteVolume(ctx context.Context, v *v1.PersistentVolume) error
	DeleteClaim(ctx context.Context, claim *v1.PersistentVolumeClaim) error
	// ClearSelectedNode lets the scheduler choose a node for the claim again.
	ClearSelectedNode(ctx context.Context, claim *v1.PersistentVolumeClaim) error
}

// nodesResource is that of Node objects, of which only metadata is read: their
// status is large and changes all the time.
func nodesResource() schema.GroupVersionResource { return v1.SchemeGroupVersion.WithResource("nodes") }

// requestTimeout bounds each request. Nothing is lost by asking again.
const requestTimeout = 30 * time.Second

// Client is [Reader] and [Writer] on Kubernetes clients.
type Client struct {
	Kubernetes kubernetes.Interface
	Metadata   metadata.Interface
	DriverName string
}

var (
	_ Reader = Client{}
	_ Writer = Client{}
)

// Volume reads a PersistentVolume.
func (c Client) Volume(ctx context.Context, name string) (*v1.PersistentVolume, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.Kubernetes.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
}

// Claim reads a PersistentVolumeClaim.
func (c Client) Claim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.Kubernetes.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Class reads a StorageClass.
func (c Client) Class(ctx context.Context, name string) (*storagev1.StorageClass, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.Kubernetes.StorageV1().StorageClasses().Get(ctx, name, metav1.GetOptions{})
}

// NodeGone gets the Node and lists by both labels. A get or list that names no
// resourceVersion is answered by what is true now, not by the API server's cache
// of a while ago (Kubernetes API concepts, "Resource versions").
func (c Client) NodeGone(ctx context.Context, host string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	nodes := c.Metadata.Resource(nodesResource())
	_, err := nodes.Get(ctx, host, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return false, err
	}
	for _, label := range []string{v1.LabelHostname, capacity.TopologyKey(c.DriverName)} {
		requirement, err := labels.NewRequirement(label, selection.Equals, []string{host})
		if err != nil {
			continue // no label can have that value
		}
		list, err := nodes.List(ctx, metav1.ListOptions{LabelSelector: requirement.String(), Limit: 1})
		if err != nil {
			return false, err
		}
		if len(list.Items) > 0 {
			return false, nil
		}
	}
	return true, nil
}

// RemoveFinalizer implements [Writer].
func (c Client) RemoveFinalizer(ctx context.Context, v *v1.PersistentVolume) error {
	kept := slices.DeleteFunc(slices.Clone(v.Finalizers), func(f string) bool { return f == provisionerFinalizer })
	patch, err := conditionalPatch(&v.ObjectMeta, map[string]any{"finalizers": kept})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err = c.Kubernetes.CoreV1().PersistentVolumes().Patch(ctx, v.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: c.DriverName})
	return err
}

// DeleteVolume implements [Writer].
func (c Client) DeleteVolume(ctx context.Context, v *v1.PersistentVolume) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.Kubernetes.CoreV1().PersistentVolumes().Delete(ctx, v.Name, onlyAsRead(&v.ObjectMeta))
}

// DeleteClaim implements [Writer].
func (c Client) DeleteClaim(ctx context.Context, claim *v1.PersistentVolumeClaim) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.Kubernetes.CoreV1().PersistentVolumeClaims(claim.Namespace).Delete(ctx, claim.Name, onlyAsRead(&claim.ObjectMeta))
}

// ClearSelectedNode implements [Writer].
func (c Client) ClearSelectedNode(ctx context.Context, claim *v1.PersistentVolumeClaim) error {
	patch, err := conditionalPatch(&claim.ObjectMeta, map[string]any{"annotations": map[string]any{storagehelpers.AnnSelectedNode: nil}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err = c.Kubernetes.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: c.DriverName})
	return err
}

func onlyAsRead(object *metav1.ObjectMeta) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion}}
}

// conditionalPatch is a merge patch of metadata. The API server answers 409 if
// the object has another resourceVersion or UID than the patch.
func conditionalPatch(object *metav1.ObjectMeta, change map[string]any) ([]byte, error) {
	if object.ResourceVersion == "" || object.UID == "" {
		return nil, fmt.Errorf("%s was not read from the API server", object.Name)
	}
	change["resourceVersion"], change["uid"] = object.ResourceVersion, object.UID
	return json.Marshal(map[string]any{"metadata": change})
}
