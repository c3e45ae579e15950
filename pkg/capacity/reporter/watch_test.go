package reporter

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// Both objects are deleted while the watch is broken: that is learned from the next
// list only, and comes as a tombstone (projectcalico/calico#13663). When they are
// made again, everything is published again.
func TestRun_DeletionsInAGapOfTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		b := startBench(t, server, nil)
		after(time.Minute)
		b.want("before", bothPools)
		// What happened since is no longer known, so the watches begin with new lists.
		expired := map[string]bool{}
		server.failWith(func(verb, resource string) error {
			if verb != "watch" || expired[resource] {
				return nil
			}
			expired[resource] = true
			return apierrors.NewResourceExpired("too old")
		}, nil)
		server.mu.Lock()
		node, csiNode := server.node, server.csiNode
		server.node, server.csiNode = nil, nil
		for resource, watchers := range server.watchers {
			for _, w := range watchers {
				w.Stop()
			}
			server.watchers[resource] = nil
		}
		server.mu.Unlock()
		before := server.tried(KindNode) + server.tried(KindCSINode)
		after(2 * time.Minute)
		b.lvm(func(s *fakeSource) { s.pools["ssd"], s.volumes = 500, 5 })
		after(2 * time.Minute)
		if got := server.tried(KindNode) + server.tried(KindCSINode) - before; got != 0 {
			t.Errorf("%d writes of objects that are gone", got)
		}
		server.mu.Lock()
		server.node, server.csiNode = node, csiNode
		server.changeNode(func(n *v1.Node) { n.UID, n.Annotations = "u9", map[string]string{} })
		server.changeCSINode(func(n *storagev1.CSINode) { n.UID = "u10" })
		for resource, object := range map[string]runtime.Object{"nodes": server.node.DeepCopy(), "csinodes": server.csiNode.DeepCopy()} {
			for _, w := range server.watchers[resource] {
				w.Add(object)
			}
		}
		server.mu.Unlock()
		after(time.Minute)
		b.want("made again", `{"hdd":"2000","ssd":"500"}`)
		if got := server.count(); got != 5 || b.notices() != "" {
			t.Errorf("count %d, want 5; notices %q", got, b.notices())
		}
	})
}

// stuckAPI answers nothing.
type stuckAPI struct{}

func (stuckAPI) Get(ctx context.Context, _ Kind) (Object, error) {
	<-ctx.Done()
	return Object{}, ctx.Err()
}

func (stuckAPI) Write(ctx context.Context, _ Kind, _ Object, _ Change) (Object, error) {
	<-ctx.Done()
	return Object{}, ctx.Err()
}

// A pod that ends needs nobody: not an API server that hangs, and not one that has
// taken its rights away already (hetznercloud/csi-driver#78). What it published stays.
func TestRun_EndsAtOnceAndTakesNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		b := startBench(t, server, nil)
		after(time.Minute)
		server.failWith(func(string, string) error { return errGone }, nil)
		b.lvm(func(s *fakeSource) { s.pools["ssd"] = 1 })
		after(time.Minute)
		stuck := startBench(t, newFakeServer(), func(o *Options) { o.API, o.Watch = stuckAPI{}, nil })
		after(time.Second)
		start := time.Now()
		b.stop()
		stuck.stop()
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %v to end", took)
		}
		b.want("after the end", bothPools)
	})
}
