package main

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/csi-local/csi-local/bench/result"
)

// resultsEnv names the folder where figures are kept, if they are to be kept.
const resultsEnv = "BENCH_RESULTS"

// goal5000 is what the cost of the in-tree check is to be at least, in costs of
// ours, at 5,000 nodes.
const goal5000 = 100

// filterer is the part of a plugin that is measured.
type filterer interface {
	framework.PreFilterPlugin
	framework.FilterPlugin
}

// BenchmarkFilter asks both plugins, as they run in a scheduler, for a pod with
// one new volume and all nodes of a cluster, of which a tenth has room. There
// are two classes, so two CSIStorageCapacity objects for each node, as the
// provisioners would publish them. One operation is one pod.
func BenchmarkFilter(b *testing.B) {
	var figures result.Set
	for _, nodes := range []int{1000, 5000} {
		on, off := newCluster(b, nodes, true), newCluster(b, nodes, false)
		var local, tracking, rest time.Duration
		b.Run(fmt.Sprintf("LocalCapacity/nodes=%d", nodes), func(b *testing.B) { local = on.filterAll(b, on.local) })
		b.Run(fmt.Sprintf("VolumeBinding/nodes=%d/tracking=on", nodes), func(b *testing.B) { tracking = on.filterAll(b, on.inTree) })
		b.Run(fmt.Sprintf("VolumeBinding/nodes=%d/tracking=off", nodes), func(b *testing.B) { rest = off.filterAll(b, off.inTree) })
		if local == 0 || tracking == 0 || rest == 0 {
			continue // not all were asked for (-bench)
		}
		// The capacity check alone: what VolumeBinding does besides is not ours to compare with.
		ratio := float64(tracking-rest) / float64(local)
		figures.Report(fmt.Sprintf("filter_intree_ms_per_pod_%d", nodes), float64(tracking-rest)/1e6, "ms")
		figures.Report(fmt.Sprintf("filter_ms_per_pod_%d", nodes), float64(local)/1e6, "ms")
		metric := fmt.Sprintf("filter_vs_intree_ratio_%d", nodes)
		if nodes < 5000 {
			figures.Report(metric, ratio, "ratio")
			continue
		}
		figures.AtLeast(metric, ratio, "ratio", goal5000)
	}
	keep(b, &figures)
}

func keep(b *testing.B, figures *result.Set) {
	b.Helper()
	folder := os.Getenv(resultsEnv)
	if folder == "" {
		return
	}
	if err := figures.Print(os.Stdout); err != nil {
		b.Fatal(err)
	}
	if err := figures.Write(folder, "scheduler-filter"); err != nil {
		b.Fatal(err)
	}
	if err := figures.Err(); err != nil {
		b.Fatal(err)
	}
}

// filterAll returns the time for one pod.
func (c *cluster) filterAll(b *testing.B, plugin filterer) time.Duration {
	ctx, state := context.Background(), schedulerframework.NewCycleState()
	if _, status := plugin.PreFilter(ctx, state, c.pod, c.nodes); !status.IsSuccess() {
		b.Fatal(status)
	}
	b.ReportAllocs()
	for b.Loop() {
		passed := 0
		for _, node := range c.nodes {
			if plugin.Filter(ctx, state, c.pod, node).IsSuccess() {
				passed++
			}
		}
		if want := c.wantPassed(plugin); passed != want {
			b.Fatalf("%d of %d nodes passed, want %d", passed, len(c.nodes), want)
		}
	}
	perPod := b.Elapsed() / time.Duration(b.N)
	b.ReportMetric(float64(perPod.Nanoseconds())/float64(len(c.nodes)), "ns/node")
	return perPod
}

func (c *cluster) wantPassed(plugin filterer) int {
	if plugin == c.inTree && !c.tracking {
		return len(c.nodes)
	}
	return len(c.nodes) / roomyEvery
}

// Both answer alike: what is measured above is the same decision.
func TestFilter_AgreesWithInTreeTracking(t *testing.T) {
	c := newCluster(t, 40, true)
	for name, plugin := range map[string]filterer{"LocalCapacity": c.local, "VolumeBinding": c.inTree} {
		state := schedulerframework.NewCycleState()
		if _, status := plugin.PreFilter(t.Context(), state, c.pod, c.nodes); !status.IsSuccess() {
			t.Fatal(status)
		}
		for i, node := range c.nodes {
			passed := plugin.Filter(t.Context(), state, c.pod, node).IsSuccess()
			if want := i%roomyEvery == 0; passed != want {
				t.Errorf("%s: node %d: passed %v, want %v", name, i, passed, want)
			}
		}
	}
}
