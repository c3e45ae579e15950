package sim

import (
	"testing"
)

// TestPublished holds the model to what was measured with the real parts:
// kubernetes-csi/csi-driver-host-path, docs/storage-capacity-tracking.md. There
// is one measurement of each kind, and docs/simulator.md says where and why the
// model is off.
func TestPublished(t *testing.T) {
	tests := []struct {
		nodes   int
		variant Variant
		// failures and seconds (from the first deployment to the last running pod) were measured.
		failures, seconds float64
	}{
		{nodes: 10, variant: InTreeNodes, failures: 27, seconds: 100.6 + 193.2},
		{nodes: 100, variant: InTreeNodes, failures: 573, seconds: 1005.8 + 1775.7},
		{nodes: 10, variant: Untracked, failures: 24 + 15 + 14 + 10 + 17 + 16 + 7 + 26, seconds: 100.6 + 414.9},
	}
	for _, test := range tests {
		// Without volumes the pods were running at this rate, for 1,000 as for 10,000.
		o := Options{Nodes: test.nodes, Pods: 100 * test.nodes, Rate: 4.65, Steady: true, Platform: DefaultPlatform()}
		o.Platform.CapacityScoring, o.Platform.PopFromBackoff = false, false
		var results []Result
		for seed := range uint64(max(1, 50/test.nodes)) {
			o.Seed = seed + 1
			results = append(results, mustRun(t, mustGenerate(t, o), test.variant))
		}
		s := Summarize(results)
		if s.AllBoundSeconds == nil {
			t.Errorf("%d nodes, %s: not all pods were bound", test.nodes, test.variant)
			continue
		}
		t.Logf("%d nodes, %s: %v failures (measured %v), %v s (measured %v)", test.nodes, test.variant, s.FailedCreates, test.failures, s.AllBoundSeconds, test.seconds)
		if f := s.FailedCreates.Median; f < test.failures/2 || f > test.failures*2 {
			t.Errorf("%d nodes, %s: %v failures, measured were %v", test.nodes, test.variant, s.FailedCreates, test.failures)
		}
		if f := s.AllBoundSeconds.Median; f < test.seconds*0.8 || f > test.seconds*1.25 {
			t.Errorf("%d nodes, %s: %v s, measured were %v", test.nodes, test.variant, s.AllBoundSeconds, test.seconds)
		}
	}
}
