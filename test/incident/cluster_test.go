package incident

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/csi-local/csi-local/test/testbed"
)

const (
	namespace = "default"
	// patience is for one step.
	patience = 5 * time.Minute
)

// cluster is the control plane without controllers. All worlds share it.
type cluster struct {
	testbed     *testbed.Cluster
	client      kubernetes.Interface
	provisioner *provisioner
	pods        corelisters.PodLister
	*figures
}

func newCluster(t *testing.T, bed *testbed.Cluster) *cluster {
	t.Helper()
	client, err := kubernetes.NewForConfig(bed.Admin())
	if err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	c := &cluster{testbed: bed, client: client, pods: factory.Core().V1().Pods().Lister(), figures: &figures{open: map[*window]bool{}}}
	c.wait(t, "the namespaces", func() (bool, error) {
		for _, name := range []string{namespace, metav1.NamespaceSystem} {
			if _, err := client.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{}); err != nil {
				return false, ignoreNotFound(err)
			}
		}
		return true, nil
	})
	c.provisioner = startProvisioner(t, client, factory)
	ctx, cancel := context.WithCancel(context.Background())
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	return c
}

func (c *cluster) wait(t *testing.T, what string, done func() (bool, error)) {
	t.Helper()
	ask := func(context.Context) (bool, error) { return done() }
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, ask); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
