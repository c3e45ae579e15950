package lvmtest

import (
	"maps"
	"testing"
	"time"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// quick bounds one command. A command that waits for a udevd that is not there, or
// has ended meanwhile, takes half a minute or never comes back.
const quick = 5 * time.Second

// quickRounds is how often a command may be slow: one that waits does so each time,
// one that shares a busy machine does not.
const quickRounds = 3

// eachIsQuick makes every change to a volume of each kind
// (piraeusdatastore/piraeus#179, lvmteam/lvm2#70, hwameistor/hwameistor#626).
func eachIsQuick(t *testing.T, b *bed) {
	b.pool(t, "tp", 20*mib)
	requests := []lvm.CreateRequest{b.thin("thin", "tp", 8*mib)}
	for _, layout := range someLayouts() {
		requests = append(requests, layout.request(b))
	}
	for _, req := range requests {
		slow := slowSteps(t, b, req)
		for round := 1; len(slow) > 0 && round < quickRounds; round++ {
			again := slowSteps(t, b, req)
			maps.DeleteFunc(slow, func(step string, _ time.Duration) bool { return again[step] == 0 })
		}
		for step, took := range slow {
			t.Errorf("%s: %s took %v, and was slow each time", req.Name, step, took)
		}
	}
}

// slowSteps leads a volume through its life and tells which changes were not quick.
func slowSteps(t *testing.T, b *bed, req lvm.CreateRequest) map[string]time.Duration {
	ctx := t.Context()
	slow := map[string]time.Duration{}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"Create", func() error { _, err := b.client.Create(ctx, req); return err }},
		{"Activate", func() error { _, err := b.client.Activate(ctx, req.Ref); return err }},
		{"Extend", func() error { _, err := b.client.Extend(ctx, req.Ref, 40*mib); return err }},
		{"ChangeTags", func() error { return b.client.ChangeTags(ctx, req.Ref, []string{"x"}, nil) }},
		{"Deactivate", func() error { return b.client.Deactivate(ctx, req.Ref) }},
		{"Remove", func() error { return b.client.Remove(ctx, req.Ref) }},
	} {
		begin := time.Now()
		if err := step.do(); err != nil {
			t.Fatalf("%s: %s: %v", req.Name, step.name, err)
		}
		if took := time.Since(begin); took > quick {
			slow[step.name] = took
		}
	}
	return slow
}
