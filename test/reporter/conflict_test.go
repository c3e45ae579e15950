package reporter

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/capacity/reporter"
)

// actor counts what one of several writers did.
type actor struct{ done, refused int }

// note takes in an attempt; a conflict is no failure.
func (a *actor) note(err error) error {
	switch {
	case err == nil:
		a.done++
	case apierrors.IsConflict(err):
		a.refused++
	default:
		return err
	}
	return nil
}

// Each of four writers of one node does 2,500 rounds as fast as it can: two
// reporters, each adding one to what it has read; kubelet, adding one to another
// driver's entry; a person who never looks. If one addition were made on an old
// reading, the sums would be too small.
func TestClient_NoWriteIsBlind(t *testing.T) {
	t.Parallel()
	const rounds = 2500
	b := newBed(t, 1)
	node := b.nodes[0]
	kubelet, person := b.client(b.cluster.Kubelet(node), "kubelet"), b.client(b.cluster.Admin(), "kubectl")
	apis := []reporter.Client{b.api(node, "a"), b.api(node, "b")}
	var sums [2]map[reporter.Kind]*actor
	var kubelets actor
	var running sync.WaitGroup
	work := func(round func(i int) error) {
		running.Go(func() {
			for i := range rounds {
				if err := round(i); err != nil {
					t.Errorf("round %d: %v", i, err)
					return
				}
			}
		})
	}
	for i, api := range apis {
		sums[i] = map[reporter.Kind]*actor{reporter.KindNode: {}, reporter.KindCSINode: {}}
		work(func(round int) error {
			kind := []reporter.Kind{reporter.KindNode, reporter.KindCSINode}[round%2]
			return sums[i][kind].note(addOne(t.Context(), api, kind))
		})
	}
	work(func(int) error { return kubelets.note(addOneAsKubelet(t.Context(), kubelet, node)) })
	work(func(i int) error { return patchAsPerson(t.Context(), person, node, i) })
	running.Wait()

	pools, slots := b.shown(node)
	total := func(kind reporter.Kind) int { return sums[0][kind].done + sums[1][kind].done }
	if want := fmt.Sprintf(`{"ssd":"%d"}`, total(reporter.KindNode)); pools != want {
		t.Errorf("the annotation is %s, want %s", pools, want)
	}
	if want := 10 + total(reporter.KindCSINode); int(slots) != want {
		t.Errorf("the count is %d, want %d", slots, want)
	}
	object, err := b.admin.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := object.Labels["person"]; got != strconv.Itoa(rounds-1) {
		t.Errorf("the person's label is %s, not that of the last round", got)
	}
	csiNode, err := b.admin.StorageV1().CSINodes().Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := count(csiNode, otherDriver), int32(7+kubelets.done); got != want {
		t.Errorf("the other driver's count is %d, want %d", got, want)
	}
	v := judge(b.audit())
	t.Logf("%d writes of reporters, %d refused, %d of others, of which kubelet %d and refused %d", v.done, v.refused, v.others, kubelets.done, kubelets.refused)
	if len(v.blind) > 0 || len(v.idle) > 0 || v.done != total(reporter.KindNode)+total(reporter.KindCSINode) {
		t.Errorf("%d blind writes, %d idle, %d others", len(v.blind), len(v.idle), v.done)
	}
	if v.refused == 0 || kubelets.refused == 0 {
		t.Error("nobody met anybody: this shows nothing")
	}
}

// addOne adds 1 to what it reads.
func addOne(ctx context.Context, api reporter.Client, kind reporter.Kind) error {
	object, err := api.Get(ctx, kind)
	if err != nil {
		return err
	}
	change := reporter.Change{Count: object.Count + 1}
	if kind == reporter.KindNode {
		pools, _, err := capacity.DecodePools(object.Annotations[capacity.PoolsAnnotation(driver)])
		if err != nil && object.Annotations[capacity.PoolsAnnotation(driver)] != "" {
			return err
		}
		text, err := capacity.EncodePools(map[string]int64{"ssd": pools["ssd"] + 1})
		if err != nil {
			return err
		}
		change = reporter.Change{Set: map[string]string{capacity.PoolsAnnotation(driver): text}}
	}
	_, err = api.Write(ctx, kind, object, change)
	return err
}

// addOneAsKubelet writes the whole CSINode, as kubelet does when a driver
// registers or its count is refreshed.
func addOneAsKubelet(ctx context.Context, kubelet kubernetes.Interface, node string) error {
	csiNode, err := kubelet.StorageV1().CSINodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for i := range csiNode.Spec.Drivers {
		if csiNode.Spec.Drivers[i].Name == otherDriver {
			csiNode.Spec.Drivers[i].Allocatable = &storagev1.VolumeNodeResources{Count: new(count(csiNode, otherDriver) + 1)}
		}
	}
	_, err = kubelet.StorageV1().CSINodes().Update(ctx, csiNode, metav1.UpdateOptions{})
	return err
}

// patchAsPerson is "kubectl label --overwrite".
func patchAsPerson(ctx context.Context, person kubernetes.Interface, node string, i int) error {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"person":"%d"}}}`, i)
	_, err := person.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// Two whole reporters on each of ten nodes, as while a DaemonSet is replaced, with
// pools that change all the time, kubelet, and a person who even overwrites the
// pools' annotation.
func TestReporter_TwoOnANodeConverge(t *testing.T) {
	const nodes, unrest = 10, 15 * time.Second
	b := newBed(t, nodes)
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), unrest)
	defer cancel()
	sources := make([]*source, nodes)
	var changed []func()
	var running sync.WaitGroup
	for i, node := range b.nodes {
		sources[i] = &source{pools: map[string]int64{"ssd": gib}, slots: 50}
		for _, name := range []string{"a", "b"} {
			tell, _ := b.start(node, name, sources[i])
			changed = append(changed, tell)
		}
		running.Go(func() { b.disturb(ctx, node, sources[i]) })
	}
	running.Wait()
	for _, s := range sources {
		s.set(map[string]int64{"ssd": 5 * gib}, 33)
	}
	for _, tell := range changed {
		tell()
	}
	for _, node := range b.nodes {
		b.published(node, 20*time.Second, `{"ssd":"5368709120"}`, 33)
	}
	converged := time.Since(start) - unrest
	before := len(b.writes())
	b.pass(3 * time.Second)
	if after := len(b.writes()); after != before {
		t.Errorf("%d writes though everything is as it should be", after-before)
	}
	v := judge(b.audit())
	t.Logf("%d writes of reporters, %d refused, %d of others; converged after %v", v.done, v.refused, v.others, converged.Round(time.Millisecond))
	if len(v.blind) > 0 || len(v.idle) > 0 || v.refused == 0 {
		t.Errorf("%d blind writes, %d idle, %d refused", len(v.blind), len(v.idle), v.refused)
	}
	attempts := map[string]int{}
	for _, r := range b.writes() {
		attempts[r.Agent+" "+r.Resource+" "+r.Name]++
	}
	// Two at once, and one more for each Interval, which is a second.
	most := 2 + int(time.Since(start)/time.Second) + 1
	for who, got := range attempts {
		if got > most {
			t.Errorf("%s: %d attempts, at most %d are allowed", who, got, most)
		}
	}
}

// disturb changes what one node has and shows, until ctx ends.
func (b *bed) disturb(ctx context.Context, node string, s *source) {
	kubelet, person := b.client(b.cluster.Kubelet(node), "kubelet"), b.client(b.cluster.Admin(), "kubectl")
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.set(map[string]int64{"ssd": gib + int64(i%7)*gib}, int64(20+i%11))
		err := addOneAsKubelet(b.t.Context(), kubelet, node)
		if err == nil || apierrors.IsConflict(err) {
			err = patchAsPerson(b.t.Context(), person, node, i)
		}
		if err == nil && i%40 == 39 {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"garbage"}}}`, capacity.PoolsAnnotation(driver))
			_, err = person.CoreV1().Nodes().Patch(b.t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		if err != nil && ctx.Err() == nil {
			b.t.Errorf("%s: %v", node, err)
			return
		}
	}
}
