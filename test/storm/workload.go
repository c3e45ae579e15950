package storm

import (
	"fmt"
	"math/rand/v2"
)

const (
	gib            = int64(1) << 30
	largestBytes   = 8 * gib
	minPodsPerNode = 20
	// sizes is how many sizes of volumes there are.
	sizes = 4
)

// volumeSizes divide each other. Placed in this order, on nodes whose capacity is
// a multiple of the largest, they fit exactly wherever each one goes: what is free
// on a node is always a multiple of the next.
func volumeSizes() [sizes]int64 { return [sizes]int64{largestBytes, 4 * gib, 2 * gib, gib} }

// pod is one pod with one claim of the same name.
type pod struct {
	name  string
	bytes int64
	class string
	// scheduler is who places it.
	scheduler string
}

// workload is what a storm creates, and what there is room for.
type workload struct {
	// pods are in the order in which they are created: the largest first.
	pods []pod
	// capacityBytes is each node's.
	capacityBytes int64
	// fitting is how many pods there is room for: the first ones.
	fitting int
}

// workloadOf has about one tenth of the largest volumes, two of the next, and so
// on, a little different with each seed.
func workloadOf(o Options) workload {
	random := rand.New(rand.NewPCG(o.Seed, 1))
	counts := mix(random, o.PodsPerNode)
	var w workload
	demand := int64(0)
	for i, bytes := range volumeSizes() {
		demand += bytes * int64(counts[i])
		for range counts[i] * o.Nodes {
			w.pods = append(w.pods, pod{fmt.Sprintf("pod-%05d", len(w.pods)), bytes, classNames()[random.IntN(classes)], schedulerName})
		}
	}
	w.capacityBytes = demand * 100 / int64(o.FillPercent) / largestBytes * largestBytes
	for left := w.capacityBytes * int64(o.Nodes); w.fitting < len(w.pods) && w.pods[w.fitting].bytes <= left; w.fitting++ {
		left -= w.pods[w.fitting].bytes
	}
	return w
}

// mix counts the pods of each size so that together they ask for a multiple of
// the largest.
func mix(random *rand.Rand, pods int) (counts [sizes]int) {
	share := func(percent int) int { return max(1, pods*(percent-2+random.IntN(5))/100) }
	counts[0], counts[1] = share(10), share(20)
	// 8a + 4b + 2c + d with d = pods-a-b-c is 0 modulo 8 for one in eight c.
	c := pods * 22 / 100
	for (4*counts[1]+2*c+pods-counts[0]-counts[1]-c)%8 != 0 {
		c++
	}
	counts[2] = c
	counts[3] = pods - counts[0] - counts[1] - c
	return counts
}

// demandBytes is what all pods ask for.
func (w workload) demandBytes() (sum int64) {
	for _, p := range w.pods {
		sum += p.bytes
	}
	return sum
}
