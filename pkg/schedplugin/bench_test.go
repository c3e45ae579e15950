package schedplugin

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// populated is a cluster with nodes nearly full and so many volumes, half of them
// of each of two classes, their claims bound.
func populated(b *testing.B, nodes, volumes int) *fixture {
	f := newFixture(b, makeClass("ssd", "pool-ssd"), makeClass("ssd-too", "pool-ssd"))
	perNode := int64(volumes/nodes + 1)
	for i := range nodes {
		name := fmt.Sprintf("node-%d", i)
		f.put(makeNode(name, "pool-ssd", (perNode+1)*gib), makeCSINode(name, 1<<20))
	}
	volumesOf := make([]*v1.PersistentVolume, nodes)
	for i := range nodes {
		volumesOf[i] = makeVolume("", "pool-ssd", fmt.Sprintf("node-%d", i), gib).PersistentVolume
	}
	for i := range volumes {
		f.cache(manyClaim(i), manyVolume(volumesOf[i%nodes], i))
	}
	return f
}

// manyVolume and manyClaim share what is alike, so that the test's own objects
// do not fill the memory.
func manyVolume(like *v1.PersistentVolume, i int) *v1.PersistentVolume {
	v := *like
	v.ObjectMeta = metav1.ObjectMeta{Name: fmt.Sprintf("pvc-%036d", i), ResourceVersion: "1"}
	v.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: fmt.Sprintf("claim-%d", i), UID: types.UID(fmt.Sprintf("%036d", i))}
	v.Status.Phase = v1.VolumeBound
	return &v
}

func manyClaim(i int) *v1.PersistentVolumeClaim {
	c := makeClaim(fmt.Sprintf("claim-%d", i), []string{"ssd", "ssd-too"}[i%2], gib).uid(fmt.Sprintf("%036d", i))
	c.Spec.VolumeName, c.Annotations = fmt.Sprintf("pvc-%036d", i), nil
	return c.PersistentVolumeClaim
}

func (f *fixture) syncVolumes() {
	for _, key := range f.caches[streamClaims].ListKeys() {
		f.sync(streamClaims, key)
	}
	for _, key := range f.caches[streamVolumes].ListKeys() {
		f.sync(streamVolumes, key)
	}
}

// BenchmarkFilter is the plugin's Filter on every node in turn, nodes nearly
// full: one more volume of 1 GiB fits each of them. ns/op is for one node.
func BenchmarkFilter(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		for _, volumes := range []int{10, 10_000, 500_000} {
			b.Run(fmt.Sprintf("nodes=%d/volumes=%d", nodes, volumes), func(b *testing.B) {
				f := populated(b, nodes, volumes)
				f.syncVolumes()
				f.put(makeClaim("new", "ssd", gib))
				pod, state, infos := makePod("p").claiming("new"), newState(), f.nodes()
				if _, status := f.plugin.PreFilter(context.Background(), state, pod.Pod, nil); !status.IsSuccess() {
					b.Fatal(status)
				}
				ctx, next := context.Background(), 0
				b.ReportAllocs()
				for b.Loop() {
					if status := f.plugin.Filter(ctx, state, pod.Pod, infos[next]); !status.IsSuccess() {
						b.Fatal(status)
					}
					if next++; next == len(infos) {
						next = 0
					}
				}
			})
		}
	}
}

// BenchmarkFilterRefusing is the same for a pod that fits nowhere.
func BenchmarkFilterRefusing(b *testing.B) {
	f := populated(b, 1000, 10_000)
	f.syncVolumes()
	f.put(makeClaim("new", "ssd", 100*gib))
	pod, state, infos := makePod("p").claiming("new"), newState(), f.nodes()
	f.plugin.PreFilter(context.Background(), state, pod.Pod, nil)
	ctx, next := context.Background(), 0
	b.ReportAllocs()
	for b.Loop() {
		if status := f.plugin.Filter(ctx, state, pod.Pod, infos[next]); status.IsSuccess() {
			b.Fatal("fits")
		}
		if next++; next == len(infos) {
			next = 0
		}
	}
}

// BenchmarkRebuild builds the books of 500,000 volumes and their claims, as after
// a start.
func BenchmarkRebuild(b *testing.B) {
	const volumes = 500_000
	f := populated(b, 5000, volumes)
	for b.Loop() {
		f.plugin = testPlugin(f.listers, testDriver)
		f.ledger = f.plugin.drivers[0].ledger
		for s := range streams {
			if s != streamClaims && s != streamVolumes {
				for _, key := range f.caches[s].ListKeys() {
					f.sync(s, key)
				}
			}
		}
		before, start := heap(), time.Now()
		f.syncVolumes()
		b.ReportMetric(time.Since(start).Seconds(), "s/rebuild")
		b.ReportMetric(float64(heap()-before)/volumes, "bytes/volume")
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkEvent is what an event costs.
func BenchmarkEvent(b *testing.B) {
	for _, volumes := range []int{10, 500_000} {
		f := populated(b, 5000, volumes)
		f.syncVolumes()
		b.Run(fmt.Sprintf("node unchanged/volumes=%d", volumes), func(b *testing.B) {
			for b.Loop() {
				f.sync(streamNodes, "node-7")
			}
		})
		figures := []*v1.Node{makeNode("node-7", "pool-ssd", 900*gib), makeNode("node-7", "pool-ssd", 901*gib)}
		b.Run(fmt.Sprintf("node publishes/volumes=%d", volumes), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				f.put(figures[i%2])
			}
		})
		b.Run(fmt.Sprintf("volume unchanged/volumes=%d", volumes), func(b *testing.B) {
			for b.Loop() {
				f.sync(streamVolumes, fmt.Sprintf("pvc-%036d", 7))
			}
		})
		volume := makeVolume("another", "pool-ssd", "node-7", gib).PersistentVolume
		b.Run(fmt.Sprintf("volume comes and goes/volumes=%d", volumes), func(b *testing.B) {
			for b.Loop() {
				f.put(volume)
				f.remove(volume)
			}
		})
	}
}
