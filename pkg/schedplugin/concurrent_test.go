package schedplugin

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
)

// TestConcurrency_FilterReserveAndEvents is for the race detector: nodes are
// filtered, pods reserve and give back, events come, metrics are read, all at
// once; in the end the books are right.
func TestConcurrency_FilterReserveAndEvents(t *testing.T) {
	const pods, rounds = 8, 150
	f := newFixture(t, baseObjects()...)
	f.plugin.shared.settle = newSettler(fake.NewClientset(), f.plugin.shared.waiting).add
	for i := range pods {
		f.put(makeClaim(fmt.Sprintf("c%d", i), "ssd", gib), makeClaim(fmt.Sprintf("o%d", i), "ssd-too", gib))
	}
	infos := f.nodes()
	var all sync.WaitGroup
	for i := range pods {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			pod := makePod(fmt.Sprintf("p%d", i)).claiming(fmt.Sprintf("c%d", i)).inline("pool-ssd", gib/8)
			for range rounds {
				ctx := context.Background()
				state := newState()
				if _, status := f.plugin.PreFilter(ctx, state, pod.Pod, nil); !status.IsSuccess() {
					t.Errorf("PreFilter: %v", status)
					return
				}
				var nodes sync.WaitGroup
				for _, info := range infos {
					nodes.Go(func() { f.plugin.Filter(ctx, state, pod.Pod, info) })
				}
				nodes.Wait()
				node := infos[random.IntN(len(infos))]
				f.plugin.Reserve(ctx, state, pod.Pod, node.node.Name)
				f.plugin.Score(ctx, state, pod.Pod, node)
				f.plugin.PostFilter(ctx, state, pod.Pod, nil)
				f.plugin.Unreserve(ctx, state, pod.Pod, node.node.Name)
			}
		})
		all.Go(func() {
			c := makeClaim(fmt.Sprintf("o%d", i), "ssd-too", gib)
			v := makeVolume(fmt.Sprintf("v%d", i), "pool-ssd", "n1", gib)
			for range rounds {
				f.put(c.selected("n1"), v.of(c), c.selected("n1").bound(v.Name), ssdNode("n1"))
				f.ask("PersistentVolume", makePod("p0").claiming("c0"), nil, v.of(c).PersistentVolume)
				f.plugin.shared.waiting.wake(klog.Background())
				f.remove(c, v)
				f.ledger.Stats()
			}
		})
	}
	all.Wait()
	f.wantUsed("all done", "n1", "pool-ssd", 0)
	f.wantUsed("all done", "n2", "pool-ssd", 0)
	if n := len(f.ledger.holders); n > 0 {
		t.Errorf("%d pods still hold something", n)
	}
}
