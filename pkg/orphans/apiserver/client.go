// Package apiserver asks the API server for what package orphans wants to know.
package apiserver

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/csi-local/csi-local/pkg/orphans"
)

// Client is [orphans.API] on a Kubernetes client.
type Client struct {
	// Kubernetes must be allowed to get PersistentVolumes and this Node.
	Kubernetes kubernetes.Interface
	NodeName   string
}

var _ orphans.API = Client{}

// fromCache as a resourceVersion lets the API server answer from its cache, so that
// etcd is not asked; none at all makes it answer with the newest.
const fromCache = "0"

// PersistentVolume gets the one of that name.
func (c Client) PersistentVolume(ctx context.Context, name string, cached bool) (orphans.Answer, error) {
	options := metav1.GetOptions{}
	if cached {
		options.ResourceVersion = fromCache
	}
	found, err := c.Kubernetes.CoreV1().PersistentVolumes().Get(ctx, name, options)
	switch {
	case saysNotFound(err, "persistentvolumes", name):
		return orphans.Answer{}, nil
	case err != nil:
		return orphans.Answer{}, err
	case found.Name != name:
		return orphans.Answer{}, fmt.Errorf("asked for PersistentVolume %s and got %q", name, found.Name)
	}
	return answer(found), nil
}

func answer(found *v1.PersistentVolume) orphans.Answer {
	out := orphans.Answer{Found: true}
	if csi := found.Spec.CSI; csi != nil {
		out.Driver, out.Handle = csi.Driver, csi.VolumeHandle
	}
	return out
}

// NodeUID gets this node's Node.
func (c Client) NodeUID(ctx context.Context) (string, error) {
	node, err := c.Kubernetes.CoreV1().Nodes().Get(ctx, c.NodeName, metav1.GetOptions{})
	switch {
	case saysNotFound(err, "nodes", c.NodeName):
		return "", fmt.Errorf("%w: Node %s", orphans.ErrNoNode, c.NodeName)
	case err != nil:
		return "", err
	case node.UID == "":
		return "", fmt.Errorf("the Node object %s has no UID", c.NodeName)
	}
	return string(node.UID), nil
}

// saysNotFound tells whether the API server itself said that this very object is
// not there. A 404 of a proxy, of a server without that resource or of a path that
// nobody serves says nothing about the object; the client library makes an error of
// the same reason from it, and notes in its causes that the answer was not a Status.
func saysNotFound(err error, resource, name string) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsNotFound(err) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Group == "" && details.Kind == resource && details.Name == name && len(details.Causes) == 0
}
