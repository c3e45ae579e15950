package sim

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func mustRun(t *testing.T, trace Trace, v Variant) Result {
	t.Helper()
	r, err := Run(trace, v)
	if err != nil {
		t.Fatalf("%s: %v", v, err)
	}
	return r
}

func TestRun_SameSeedSameResult(t *testing.T) {
	trace := mustGenerate(t, Options{Seed: 3, Nodes: 4, Pods: 100, SizesGiB: []int64{1, 3}, MaxClaims: 2, Rate: 20, ShortLived: 0.3, Lifetime: time.Minute})
	for _, v := range Variants() {
		if diff := cmp.Diff(mustRun(t, trace, v), mustRun(t, trace, v)); diff != "" {
			t.Errorf("%s: the same trace came out otherwise:\n%s", v, diff)
		}
	}
}

// loads are of every kind.
func loads() map[string]Options {
	return map[string]Options{
		"a storm":                  storm(1),
		"one after the other":      {Nodes: 10, Pods: 300, Rate: 4.65},
		"half of what there is":    {Nodes: 10, Pods: 300, Demand: 0.5},
		"nearly all there is":      {Nodes: 10, Pods: 300, Demand: 0.9, Rate: 50},
		"more than there is":       {Nodes: 10, Pods: 330, Demand: 1.1},
		"sizes and claims":         {Nodes: 10, Pods: 200, SizesGiB: []int64{1, 2, 5, 20}, MaxClaims: 4},
		"coming and going":         {Nodes: 5, Pods: 300, Demand: 2, Rate: 10, ShortLived: 0.8, Lifetime: time.Minute},
		"a slow API":               {Nodes: 10, Pods: 200, Timing: slowAPI()},
		"a fast controller":        {Nodes: 10, Pods: 300, Platform: fastController()},
		"more nodes than are seen": {Nodes: 250, Pods: 500},
	}
}

func slowAPI() Timing {
	t := DefaultTiming()
	t.APIWrite, t.Watch = 500*time.Millisecond, 3*time.Second
	return t
}

func fastController() Platform {
	f := DefaultPlatform()
	f.ControllerQPS, f.ControllerBurst, f.SchedulerQPS, f.SchedulerBurst = 1000, 1000, 1000, 1000
	return f
}

func TestRun_LocalCapacityNeverPromisesTwice(t *testing.T) {
	for name, o := range loads() {
		for seed := range uint64(3) {
			o.Seed = seed
			r := mustRun(t, mustGenerate(t, o), LocalCapacity)
			if r.FailedCreates != 0 || r.OversoldPeakBytes != 0 || r.Stuck != 0 {
				t.Errorf("%s, seed %d: %+v", name, seed, r)
			}
			// One size fits wherever there is room, so nothing may be left.
			if len(o.SizesGiB) == 0 && o.Demand <= 1 && !r.AllBound() {
				t.Errorf("%s, seed %d: only %d of %d pods were bound", name, seed, r.Bound, r.Pods)
			}
			if r.TrackingWrites() != 0 {
				t.Errorf("%s, seed %d: %d API writes for tracking", name, seed, r.TrackingWrites())
			}
		}
	}
}

// Without Reserve the same ledger fails, so the simulation can tell.
func TestRun_ReserveIsWhatItTakes(t *testing.T) {
	for seed := range uint64(5) {
		r := mustRun(t, mustGenerate(t, storm(seed)), WithoutReserve)
		if r.FailedCreates == 0 || r.OversoldPeakBytes == 0 {
			t.Errorf("seed %d: nothing was promised twice in a storm: %+v", seed, r)
		}
	}
}

func TestRun_OthersFailInAStorm(t *testing.T) {
	for _, v := range []Variant{Untracked, InTreeCentral, InTreeNodes, Extender} {
		for seed := range uint64(3) {
			r := mustRun(t, mustGenerate(t, storm(seed)), v)
			if r.FailedCreates == 0 || r.OversoldPeakBytes == 0 {
				t.Errorf("%s, seed %d: nothing was promised twice in a storm: %+v", v, seed, r)
			}
		}
	}
}

// A pod whose volumes are made one by one, on a node that has no room for all,
// can be placed nowhere any more, though it would have fitted on the second node.
// That limitation is known: https://kubernetes.io/blog/2022/05/06/storage-capacity-ga/.
func TestRun_InTreeLooksAtEachClaimAlone(t *testing.T) {
	trace := Trace{Options: Options{Nodes: 2, Pods: 1, Patience: 20 * time.Minute, Timing: DefaultTiming(), Platform: DefaultPlatform()},
		PoolBytes: []int64{3 * gib, 4 * gib}, Pods: []PodSpec{{ClaimBytes: []int64{2 * gib, 2 * gib}, CreateTimes: make([]time.Duration, 2)}}}
	stuck := 0
	for seed := range uint64(20) {
		trace.Options.Seed = seed
		r := mustRun(t, trace, InTreeNodes)
		stuck += r.Stuck
		if ours := mustRun(t, trace, LocalCapacity); ours.Bound != 1 {
			t.Errorf("seed %d: with LocalCapacity the pod was not bound", seed)
		}
	}
	if stuck == 0 {
		t.Error("the pod was never stuck")
	}
}

func TestRun_PublicationKeepsToItsLimit(t *testing.T) {
	o := Options{Nodes: 100, Pods: 100, Platform: fastController()}
	r := mustRun(t, mustGenerate(t, o), InTreeCentral)
	if most := capacityBurst + int(r.LastBoundSeconds)*capacityQPS + 1; r.TrackingWrites() > most || r.TrackingWrites() < most/2 {
		t.Errorf("%d writes of CSIStorageCapacity in %v s, want at most %d", r.TrackingWrites(), r.LastBoundSeconds, most)
	}
	// The agents write once for each volume, unless two changes come in one.
	o = storm(1)
	r = mustRun(t, mustGenerate(t, o), Extender)
	if n := r.APIWrites["node agent"]; n > o.Pods || n < o.Pods/2 {
		t.Errorf("%d writes of Node for %d volumes", n, o.Pods)
	}
}

func TestRun_UnknownVariant(t *testing.T) {
	if _, err := Run(mustGenerate(t, storm(1)), "perfect"); !errors.Is(err, ErrVariant) {
		t.Error(err)
	}
}

func drawOptions(t *rapid.T) Options {
	millis := func(name string, most int) time.Duration {
		return time.Duration(rapid.IntRange(1, most).Draw(t, name)) * time.Millisecond
	}
	o := Options{
		Seed: rapid.Uint64().Draw(t, "seed"), Nodes: rapid.IntRange(1, 6).Draw(t, "nodes"), Pods: rapid.IntRange(1, 60).Draw(t, "pods"),
		SizesGiB: rapid.SliceOfN(rapid.Int64Range(1, 30), 1, 4).Draw(t, "sizes"), MaxClaims: rapid.IntRange(1, 3).Draw(t, "claims"),
		Demand: rapid.Float64Range(0.5, 1.5).Draw(t, "demand"), Rate: rapid.SampledFrom([]float64{0, 1, 10, 50}).Draw(t, "rate"),
		ShortLived: rapid.SampledFrom([]float64{0, 0.2, 0.7}).Draw(t, "shortLived"), Lifetime: millis("lifetime", 100_000), Patience: 30 * time.Minute,
		Timing: Timing{APIWrite: millis("apiWrite", 300), Watch: millis("watch", 1000), Cycle: millis("cycle", 10), Extender: millis("extender", 20),
			CreateVolume: millis("create", 2000), DeleteVolume: millis("delete", 2000), GetCapacity: millis("getCapacity", 500)},
		Platform: DefaultPlatform(),
	}
	if rapid.Bool().Draw(t, "fast") {
		o.Platform = fastController()
	}
	o.Platform.CapacityScoring = rapid.Bool().Draw(t, "capacityScoring")
	o.Platform.PopFromBackoff = rapid.Bool().Draw(t, "popFromBackoff")
	return o
}

// TestRun_AnyTrace: nothing is lost or invented with any variant (Run checks
// that), and LocalCapacity never promises what is not there, and forgets nobody.
func TestRun_AnyTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace, err := Generate(drawOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range Variants() {
			r, err := Run(trace, v)
			if err != nil {
				t.Fatalf("%s: %v", v, err)
			}
			if v == LocalCapacity && (r.FailedCreates != 0 || r.OversoldPeakBytes != 0 || r.Stuck != 0) {
				t.Fatalf("%s: %+v", v, r)
			}
		}
	})
}
