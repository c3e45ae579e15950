package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/capacity/reporter"
	"github.com/csi-local/csi-local/test/testbed"
)

// workers is how many requests of an administrator are under way at once.
const workers = 8

// serviceAccount is that of deploy/policy.
const namespace, serviceAccount = "kube-system", "csi-local-node"

// fleet is a cluster of nodes, each with a reporter that is a real service
// account of its node, within the rights and the fence of deploy/policy.
type fleet struct {
	cluster  *testbed.Cluster
	admin    *kubernetes.Clientset
	settings reporter.Settings
	clock    *clock
	nodes    []*node
	shown    *shown
	running  sync.WaitGroup
	stop     context.CancelFunc
}

func newFleet(ctx context.Context, opts options) (f *fleet, err error) {
	f = &fleet{settings: opts.settings(), clock: newClock()}
	for i := range opts.nodes {
		f.nodes = append(f.nodes, newNode(fmt.Sprintf("node-%05d", i)))
	}
	if f.cluster, err = testbed.Start(ctx, testbed.Options{}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.cluster.Stop())
		}
	}()
	if f.admin, err = kubernetes.NewForConfig(f.cluster.Admin()); err != nil {
		return nil, err
	}
	if err := f.applyPolicy(ctx); err != nil {
		return nil, err
	}
	if err := f.each(func(n *node) error { return f.makeObjects(ctx, n.name) }); err != nil {
		return nil, err
	}
	f.shown = newShown(ctx, f.admin)
	return f, f.waitForFence(ctx)
}

// each does something for every node, and returns when all is done.
func (f *fleet) each(do func(*node) error) error {
	queue := make(chan *node)
	errs := make([]error, workers)
	var running sync.WaitGroup
	for i := range workers {
		running.Go(func() {
			for n := range queue {
				if errs[i] == nil {
					errs[i] = do(n)
				}
			}
		})
	}
	for _, n := range f.nodes {
		queue <- n
	}
	close(queue)
	running.Wait()
	return errors.Join(errs...)
}

func (f *fleet) applyPolicy(ctx context.Context) error {
	kubectl, err := testbed.Kubectl.Path(ctx, os.Stderr)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, kubectl, "apply", "--kubeconfig", f.cluster.KubeconfigPath(), "-f", filepath.Join("deploy", "policy"))
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("deploy/policy: %w\n%s", err, out)
	}
	return nil
}

// makeObjects are the Node and the CSINode as kubelet has made them.
func (f *fleet) makeObjects(ctx context.Context, name string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Status.NodeInfo.KubeletVersion = "v1.37.2"
	if _, err := f.admin.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	csiNode := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
		{Name: capacity.DefaultDriverName, NodeID: name, Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(volumes))}},
	}}}
	_, err := f.admin.StorageV1().CSINodes().Create(ctx, csiNode, metav1.CreateOptions{})
	return err
}

// fencePatience is how long policies may take to be in force.
const fencePatience = time.Minute

// waitForFence returns when the first node's account may not label its Node.
func (f *fleet) waitForFence(ctx context.Context) error {
	name := f.nodes[0].name
	config, err := f.cluster.ServiceAccount(ctx, namespace, serviceAccount, name)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	tries := 0
	return poll(ctx, fencePatience, "the fence of deploy/policy", func() (bool, error) {
		tries++ // another label each time: one that is there already would change nothing
		label := fmt.Appendf(nil, `{"metadata":{"labels":{"fence":"%d"}}}`, tries)
		_, err := client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, label, metav1.PatchOptions{})
		return apierrors.IsForbidden(err) || apierrors.IsInvalid(err), nil
	})
}

// start starts the reporters, as fast as tokens can be made for them.
func (f *fleet) start(ctx context.Context) error {
	running, stop := context.WithCancel(quiet(ctx))
	f.stop = stop
	return f.each(func(n *node) error {
		config, err := f.cluster.ServiceAccount(ctx, namespace, serviceAccount, n.name)
		if err != nil {
			return err
		}
		r, err := n.newReporter(config, f.settings, f.clock)
		if err != nil {
			return err
		}
		f.running.Go(func() { r.Run(running) })
		return nil
	})
}

// change gives all volume groups another size, spread evenly over that time, and
// returns when the first has changed.
func (f *fleet) change(bytes int64, within time.Duration) (began time.Time) {
	began = time.Now()
	for i, n := range f.nodes {
		if wait := time.Duration(i)*within/time.Duration(len(f.nodes)) - time.Since(began); wait > 0 {
			<-time.After(wait)
		}
		n.bytes.Store(bytes)
		n.wake()
	}
	return began
}

// pass lets time of the reporters' clock go by.
func (f *fleet) pass(ctx context.Context, d time.Duration, rate float64) error {
	f.setRate(rate)
	defer f.setRate(1)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-f.clock.After(d):
		return nil
	}
}

func (f *fleet) setRate(rate float64) {
	f.clock.setRate(rate)
	for _, n := range f.nodes {
		n.wake()
	}
}

// end stops the reporters and then the cluster.
func (f *fleet) end() error {
	if f.stop != nil {
		f.stop()
	}
	f.running.Wait()
	return f.cluster.Stop()
}

// poll looks again and again until something is done.
func poll(ctx context.Context, within time.Duration, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %v: %w", what, within, ctx.Err())
		case <-tick.C:
		}
	}
}
