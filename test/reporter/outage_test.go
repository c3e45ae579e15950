package reporter

import (
	"testing"
	"time"
)

// The API server is gone for a while in which everything changes. Afterwards each
// node writes what is true then, once, and asks no more than it must.
func TestReporter_NoBurstAfterTheServerWasGone(t *testing.T) {
	t.Parallel() // beside a test that computes: this one mostly waits
	const nodes, outage = 20, time.Minute
	b := newBed(t, nodes)
	sources := make([]*source, nodes)
	changed := make([]func(), nodes)
	for i, node := range b.nodes {
		sources[i] = &source{pools: map[string]int64{"ssd": 8 * gib}, slots: 50}
		changed[i], _ = b.start(node, "a", sources[i])
	}
	for _, node := range b.nodes {
		b.published(node, 20*time.Second, `{"ssd":"8589934592"}`, 50)
	}
	if err := b.cluster.StopAPIServer(); err != nil {
		t.Fatal(err)
	}
	before := b.asked.Load()
	const changes = 60
	for step := range changes {
		for i := range nodes {
			sources[i].set(map[string]int64{"ssd": 4*gib + int64(changes-step-1)*gib/16}, int64(40+changes-step-1))
			changed[i]()
		}
		b.pass(outage / changes)
	}
	asked := int(b.asked.Load() - before)
	t.Logf("%d requests of %d reporters in %v without a server", asked, nodes, outage)
	// The quick settings ask for each object every half a second at the shortest, once
	// the back-off has grown; the watches' back-off is client-go's.
	if most := nodes * (2*int(outage/(500*time.Millisecond)) + 30); asked > most {
		t.Errorf("%d requests to a server that is gone, at most %d are allowed", asked, most)
	}
	back := time.Now()
	if err := b.cluster.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, node := range b.nodes {
		b.published(node, 30*time.Second, `{"ssd":"4294967296"}`, 40)
	}
	t.Logf("%d nodes converged %v after the server was started", nodes, time.Since(back).Round(time.Millisecond))
	b.pass(3 * time.Second)

	writes, requests := map[string]int{}, map[string]int{}
	all, err := b.cluster.Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, r := range all {
		if !byReporter(r) || r.Received.Before(back) {
			continue
		}
		total++
		requests[r.Name]++
		if r.Write() {
			writes[r.Resource+" "+r.Name]++
		}
	}
	t.Logf("%d requests of %d reporters since", total, nodes)
	for what, got := range writes {
		if got > 1 {
			t.Errorf("%s: %d writes after the outage, want 1", what, got)
		}
	}
	if len(writes) != 2*nodes {
		t.Errorf("%d objects were written, want %d", len(writes), 2*nodes)
	}
	// Two reads, two writes, and what the two watches need to begin anew.
	if most := 12 * nodes; total > most {
		t.Errorf("%d requests after the outage, at most %d are allowed", total, most)
	}
}
