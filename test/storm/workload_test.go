package storm

import (
	"testing"

	"pgregory.net/rapid"
)

// Wherever each pod goes among the nodes that have room for it, all of them fit:
// else a storm would tell more about packing than about promises.
func TestWorkload_FitsHoweverItIsPlaced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{
			Nodes: rapid.IntRange(1, 12).Draw(t, "nodes"), PodsPerNode: rapid.IntRange(minPodsPerNode, 120).Draw(t, "pods"),
			FillPercent: rapid.SampledFrom([]int{50, 90, 100, 110}).Draw(t, "fill"), Seed: rapid.Uint64().Draw(t, "seed"),
		}
		w := workloadOf(o)
		total := w.capacityBytes * int64(o.Nodes)
		if len(w.pods) != o.Nodes*o.PodsPerNode {
			t.Fatalf("%d pods", len(w.pods))
		}
		if o.FillPercent == 100 && w.demandBytes() != total || w.capacityBytes%largestBytes != 0 {
			t.Fatalf("demand %d, capacity %d × %d", w.demandBytes(), o.Nodes, w.capacityBytes)
		}
		free := make([]int64, o.Nodes)
		for i := range free {
			free[i] = w.capacityBytes
		}
		placed, fitting := int64(0), 0
		for _, p := range w.pods {
			var roomy []int
			for i := range free {
				if free[i] >= p.bytes {
					roomy = append(roomy, i)
				}
			}
			if len(roomy) == 0 {
				if placed+p.bytes <= total {
					t.Fatalf("%s of %d bytes has no node, with %d of %d bytes placed", p.name, p.bytes, placed, total)
				}
				continue
			}
			node := rapid.SampledFrom(roomy).Draw(t, "node")
			free[node] -= p.bytes
			placed += p.bytes
			fitting++
		}
		if fitting != w.fitting {
			t.Fatalf("%d pods fit, but %d are said to", fitting, w.fitting)
		}
		if want := min(total, w.demandBytes()); placed != want {
			t.Fatalf("%d bytes placed, want %d", placed, want)
		}
	})
}

func TestWorkload_SeedDecides(t *testing.T) {
	o := Options{Nodes: 10, PodsPerNode: 100, FillPercent: 100, Seed: 1}
	first, again := workloadOf(o), workloadOf(o)
	o.Seed = 2
	other := workloadOf(o)
	same := func(a, b workload) bool {
		for i := range a.pods {
			if a.pods[i] != b.pods[i] {
				return false
			}
		}
		return true
	}
	if !same(first, again) {
		t.Error("the same seed makes other pods")
	}
	if same(first, other) {
		t.Error("another seed makes the same pods")
	}
	counts := map[int64]int{}
	for _, p := range first.pods {
		counts[p.bytes]++
	}
	for _, bytes := range volumeSizes() {
		if counts[bytes] < 80 {
			t.Errorf("%d pods of %d bytes: not much of a mix", counts[bytes], bytes)
		}
	}
}
