package sim

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// storm is the hardest load: all pods at once, for exactly what there is.
func storm(seed uint64) Options { return Options{Seed: seed, Nodes: 10, Pods: 300} }

func mustGenerate(t *testing.T, o Options) Trace {
	t.Helper()
	trace, err := Generate(o)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

func TestGenerate_FollowsFromItsOptions(t *testing.T) {
	o := Options{Seed: 7, Nodes: 4, Pods: 40, SizesGiB: []int64{1, 5}, MaxClaims: 3, Rate: 3, ShortLived: 0.5, Lifetime: time.Minute}
	if diff := cmp.Diff(mustGenerate(t, o), mustGenerate(t, o)); diff != "" {
		t.Errorf("the same options gave another trace:\n%s", diff)
	}
	other := o
	other.Seed = 8
	if cmp.Equal(mustGenerate(t, o).Pods, mustGenerate(t, other).Pods) {
		t.Error("another seed gave the same pods")
	}
}

func TestGenerate_DemandIsAPartOfThePools(t *testing.T) {
	for _, c := range []struct{ demand, want float64 }{{0.5, 0.5}, {0.9, 0.9}, {0, 1}, {1.1, 1.1}} {
		trace := mustGenerate(t, Options{Seed: 1, Nodes: 5, Pods: 100, SizesGiB: []int64{1, 2, 8}, MaxClaims: 2, Demand: c.demand})
		var claimed, pools int64
		for _, p := range trace.Pods {
			for _, bytes := range p.ClaimBytes {
				claimed += bytes
			}
		}
		for _, bytes := range trace.PoolBytes {
			pools += bytes
		}
		if got := float64(claimed) / float64(pools); got < c.want-0.001 || got > c.want+0.001 {
			t.Errorf("demand %v: %d bytes are claimed of %d: %v", c.demand, claimed, pools, got)
		}
	}
}

func TestGenerate_PodsComeAtTheRate(t *testing.T) {
	for _, steady := range []bool{true, false} {
		trace := mustGenerate(t, Options{Seed: 1, Nodes: 1, Pods: 2000, Rate: 5, Steady: steady})
		if last := trace.Pods[len(trace.Pods)-1].Arrives.Seconds(); last < 370 || last > 430 {
			t.Errorf("steady %t: 2000 pods at 5 a second came in %v s", steady, last)
		}
	}
}

func TestGenerate_RefusesSenselessOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"no nodes":               {Pods: 1},
		"no pods":                {Nodes: 1},
		"a negative rate":        {Nodes: 1, Pods: 1, Rate: -1},
		"a negative demand":      {Nodes: 1, Pods: 1, Demand: -1},
		"a size of nothing":      {Nodes: 1, Pods: 1, SizesGiB: []int64{0}},
		"more than all pods":     {Nodes: 1, Pods: 1, ShortLived: 2, Lifetime: time.Second},
		"short lives of no time": {Nodes: 1, Pods: 1, ShortLived: 0.5},
	} {
		if _, err := Generate(o); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
