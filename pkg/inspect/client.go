package inspect

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Client is [API] on a Kubernetes client.
type Client struct {
	kubernetes kubernetes.Interface
	clock      *serverClock
}

var _ API = Client{}

// NewClient changes config: it looks at the answers to learn the time.
func NewClient(config *rest.Config) (Client, error) {
	c := Client{clock: &serverClock{}}
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return timeReader{inner: inner, clock: c.clock} })
	var err error
	c.kubernetes, err = kubernetes.NewForConfig(config)
	return c, err
}

// serverClock is the API server's: a person's machine may go by another one, by
// which a leader's lease would look stale.
type serverClock struct{ ahead atomic.Int64 }

// timeReader sees each answer.
type timeReader struct {
	inner http.RoundTripper
	clock *serverClock
}

// RoundTrip implements [http.RoundTripper].
func (r timeReader) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.inner.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		// Whole seconds: within one, the two clocks are the same.
		if ahead := time.Until(date); ahead.Abs() > time.Second {
			r.clock.ahead.Store(int64(ahead))
		}
	}
	return response, nil
}

// Now implements [API].
func (c Client) Now() time.Time { return time.Now().Add(time.Duration(c.clock.ahead.Load())) }

// ServerVersion implements [API].
func (c Client) ServerVersion(ctx context.Context) (string, error) {
	info, err := discovery.ToServerVersionInterfaceWithContext(c.kubernetes.Discovery()).ServerVersionWithContext(ctx)
	if err != nil {
		return "", err
	}
	return info.GitVersion, nil
}

// List implements [API].
func (c Client) List(ctx context.Context, kind Kind, namespace string, options metav1.ListOptions) (runtime.Object, error) {
	k := c.kubernetes
	switch kind {
	case Nodes:
		return k.CoreV1().Nodes().List(ctx, options)
	case Volumes:
		return k.CoreV1().PersistentVolumes().List(ctx, options)
	case Claims:
		return k.CoreV1().PersistentVolumeClaims(namespace).List(ctx, options)
	case Pods:
		return k.CoreV1().Pods(namespace).List(ctx, options)
	case Events:
		return k.CoreV1().Events(namespace).List(ctx, options)
	case CSINodes:
		return k.StorageV1().CSINodes().List(ctx, options)
	case StorageClasses:
		return k.StorageV1().StorageClasses().List(ctx, options)
	case Attachments:
		return k.StorageV1().VolumeAttachments().List(ctx, options)
	case DaemonSets:
		return k.AppsV1().DaemonSets(namespace).List(ctx, options)
	case Deployments:
		return k.AppsV1().Deployments(namespace).List(ctx, options)
	case Policies:
		return k.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, options)
	case PolicyBindings:
		return k.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().List(ctx, options)
	default:
		return nil, fmt.Errorf("%s are not listed", kind)
	}
}

// Get implements [API].
func (c Client) Get(ctx context.Context, kind Kind, namespace, name string) (runtime.Object, error) {
	switch kind {
	case CSIDrivers:
		return c.kubernetes.StorageV1().CSIDrivers().Get(ctx, name, metav1.GetOptions{})
	case ConfigMaps:
		return c.kubernetes.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	case Leases:
		return c.kubernetes.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	default:
		return nil, fmt.Errorf("%s are not read one by one", kind)
	}
}
