package reporter

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Publication is rolled out by a label, and taken back by it.
func TestRun_PublishesWhereTheLabelsAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		where := labels.SelectorFromSet(labels.Set{"csi-local/publish": "true"})
		b := startBench(t, server, func(o *Options) { o.Settings.Where = where })
		after(10 * time.Minute)
		b.want("no label", "")
		server.label("csi-local/publish", "false")
		after(10 * time.Minute)
		b.want("another label", "")
		if b.notices() != "CapacityPaused" {
			t.Errorf("notices %q", b.notices())
		}
		server.label("csi-local/publish", "true")
		after(10 * time.Minute)
		b.want("the label", bothPools)
		server.label("csi-local/publish", "")
		after(time.Second)
		b.lvm(func(s *fakeSource) { s.pools["ssd"] = 10 })
		after(10 * time.Minute)
		b.want("pinned", bothPools)
		server.label("csi-local/publish", "true")
		after(10 * time.Minute)
		b.want("the label again", `{"hdd":"2000","ssd":"10"}`)
	})
}

// label sets a label of the Node, or takes it off.
func (s *fakeServer) label(key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changeNode(func(n *v1.Node) {
		n.Labels = map[string]string{key: value}
		if value == "" {
			n.Labels = nil
		}
	})
}
