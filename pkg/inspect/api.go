package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Kind is a kind of objects that is read, in the plural of kubectl.
type Kind string

// The kinds that are read.
const (
	Nodes          Kind = "nodes"
	CSINodes       Kind = "csinodes.storage.k8s.io"
	CSIDrivers     Kind = "csidrivers.storage.k8s.io"
	StorageClasses Kind = "storageclasses.storage.k8s.io"
	Volumes        Kind = "persistentvolumes"
	Claims         Kind = "persistentvolumeclaims"
	Pods           Kind = "pods"
	Attachments    Kind = "volumeattachments.storage.k8s.io"
	Events         Kind = "events"
	ConfigMaps     Kind = "configmaps"
	DaemonSets     Kind = "daemonsets.apps"
	Deployments    Kind = "deployments.apps"
	Leases         Kind = "leases.coordination.k8s.io"
	Policies       Kind = "validatingadmissionpolicies.admissionregistration.k8s.io"
	PolicyBindings Kind = "validatingadmissionpolicybindings.admissionregistration.k8s.io"
)

// API is an API server. Each call is one request. Errors are those of
// k8s.io/apimachinery/pkg/api/errors where the API server has answered.
type API interface {
	// List returns one page of the kind, in all namespaces if namespace is empty.
	List(ctx context.Context, kind Kind, namespace string, options metav1.ListOptions) (runtime.Object, error)
	// Get returns one object.
	Get(ctx context.Context, kind Kind, namespace, name string) (runtime.Object, error)
	// ServerVersion is that of Kubernetes, such as v1.37.2.
	ServerVersion(ctx context.Context) (string, error)
	// Now is the API server's clock as of its last answer.
	Now() time.Time
}

// DefaultMaxRequests is enough for half a million objects.
const DefaultMaxRequests = 1000

// pageSize is what client-go's own lists have: small enough for the API server to
// answer at once, large enough to need few requests.
const pageSize = 500

// ErrTooManyRequests: the cluster is larger than the bound on requests allows.
var ErrTooManyRequests = errors.New("too many requests")

// asker counts requests, and stops at the bound.
type asker struct {
	api       API
	asked     int
	remaining int
}

func (a *asker) count() error {
	if a.remaining == 0 {
		return fmt.Errorf("%w: %d were allowed", ErrTooManyRequests, a.asked)
	}
	a.asked, a.remaining = a.asked+1, a.remaining-1
	return nil
}

// selection says which objects of a kind to read; empty fields choose all.
type selection struct {
	kind                     Kind
	namespace, label, fields string
}

// each calls keep for every object of the selection, page by page.
func each[T any](ctx context.Context, a *asker, s selection, keep func(*T)) error {
	options := metav1.ListOptions{Limit: pageSize, LabelSelector: s.label, FieldSelector: s.fields}
	for {
		if err := a.count(); err != nil {
			return fmt.Errorf("%s: %w", s.kind, err)
		}
		page, err := a.api.List(ctx, s.kind, s.namespace, options)
		if next := expired(err); next != "" {
			options.Continue = next
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.kind, err)
		}
		err = meta.EachListItem(page, func(object runtime.Object) error {
			item, ok := any(object).(*T)
			if !ok {
				return fmt.Errorf("an object of type %T among them", object)
			}
			keep(item)
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", s.kind, err)
		}
		list, err := meta.ListAccessor(page)
		if err != nil {
			return fmt.Errorf("%s: %w", s.kind, err)
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// expired returns the token with which a list goes on that took longer than etcd
// keeps old states: the rest is of a later state (Kubernetes API concepts,
// "Retrieving large results sets in chunks").
func expired(err error) (next string) {
	var status apierrors.APIStatus
	if apierrors.IsResourceExpired(err) && errors.As(err, &status) {
		return status.Status().Continue
	}
	return ""
}

// one reads an object; nil if it is not there.
func one[T any](ctx context.Context, a *asker, kind Kind, namespace, name string) (*T, error) {
	if err := a.count(); err != nil {
		return nil, fmt.Errorf("%s %s: %w", kind, name, err)
	}
	object, err := a.api.Get(ctx, kind, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // that it is not there is an answer
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", kind, name, err)
	}
	item, ok := any(object).(*T)
	if !ok {
		return nil, fmt.Errorf("%s %s: an object of type %T", kind, name, object)
	}
	return item, nil
}
