package lvmtest

import (
	"testing"
	"time"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// quick bounds one command. A command that waits for a udevd that is not there, or
// has ended meanwhile, takes half a minute or never comes back.
const quick = 5 * time.Second

// eachIsQuick makes every change to a volume of each kind
// (piraeusdatastore/piraeus#179, lvmteam/lvm2#70, hwameistor/hwameistor#626).
func eachIsQuick(t *testing.T, b *bed) {
	b.pool(t, "tp", 20*mib)
	requests := []lvm.CreateRequest{b.thin("thin", "tp", 8*mib)}
	for _, layout := range someLayouts() {
		requests = append(requests, layout.request(b))
	}
	for _, req := range requests {
		ctx := t.Context()
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
			err := step.do()
			if took := time.Since(begin); err != nil || took > quick {
				t.Errorf("%s: %s took %v: %v", req.Name, step.name, took, err)
			}
		}
	}
}
