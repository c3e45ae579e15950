package reporter

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// LVM has not answered since the process began: what was published before must
// not stay because the reporter waits for it.
func TestRun_LVMHangsFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		server.annotate(capacity.PoolsAnnotation(testDriver), bothPools)
		b := startBench(t, server, nil)
		b.source.set(func(s *fakeSource) { s.hangs = true })
		after(50 * time.Second)
		b.want("for a while", bothPools)
		after(2 * time.Minute)
		b.want("then", `{"hdd":"0","ssd":"0"}`)
		b.lvm(func(s *fakeSource) { s.hangs = false })
		after(10 * time.Minute)
		b.want("LVM answers", bothPools)
	})
}

// stormRounds are seconds of the fake clock in which something happens.
const stormRounds = 10_000

// Two reporters, kubelet and a person write the same two objects at once.
func TestRun_TwoReportersKubeletAndAPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a model
		server := newFakeServer()
		one, two := startBench(t, server, nil), startBench(t, server, nil)
		for range stormRounds {
			switch random.IntN(10) {
			case 0:
				figure, volumes := random.Int64N(1000), random.Int64N(300)
				for _, b := range []*bench{one, two} {
					b.lvm(func(s *fakeSource) { s.pools["ssd"], s.volumes = figure, volumes })
				}
			case 1:
				server.annotate(capacity.PoolsAnnotation(testDriver), []string{"", "{", `{"ssd":"5000"}`, `{"hdd":"1"}`}[random.IntN(4)])
			case 2:
				server.mu.Lock()
				server.changeCSINode(func(n *storagev1.CSINode) {
					n.Spec.Drivers[1].Allocatable.Count = new(random.Int32N(500) + 1)
				})
				server.mu.Unlock()
			case 3:
				server.annotate("somebody/else", time.Now().String())
			}
			after(time.Second)
		}
		for _, b := range []*bench{one, two} {
			b.lvm(func(s *fakeSource) { s.pools["ssd"], s.volumes = 700, 70 })
		}
		after(time.Hour)
		one.want("an hour later", `{"hdd":"2000","ssd":"700"}`)
		if got := server.count(); got != 70 {
			t.Errorf("count %d, want 70", got)
		}
		most := 2 * (burst + int((stormRounds*time.Second+time.Hour)/DefaultSettings().Interval))
		for _, kind := range []Kind{KindNode, KindCSINode} {
			if tried := server.tried(kind); tried > most || server.blind > 0 {
				t.Errorf("%s: %d attempts, at most %d are allowed; %d blind writes", kind, tried, most, server.blind)
			}
			t.Logf("%s: %d attempts, %d writes", kind, server.tried(kind), server.written(kind))
		}
		before := server.tried(KindNode) + server.tried(KindCSINode)
		after(10 * time.Minute)
		if got := server.tried(KindNode) + server.tried(KindCSINode) - before; got != 0 {
			t.Errorf("%d writes though nothing changes", got)
		}
	})
}

// The watch is broken, or late: a conflict makes the object be read again.
func TestRun_WithoutWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		b := startBench(t, server, func(o *Options) { o.Watch = nil })
		after(time.Minute)
		b.want("after the start", bothPools)
		server.annotate(capacity.PoolsAnnotation(testDriver), `{"hdd":"5000","ssd":"5000"}`)
		server.setEntry(3)
		b.lvm(func(s *fakeSource) { s.pools["ssd"], s.volumes = 10, 5 })
		after(20 * time.Second)
		b.want("after a conflict", `{"hdd":"2000","ssd":"10"}`)
		if got := server.count(); got != 5 || b.notices() != "ForeignCapacityWriter" {
			t.Errorf("count %d, want 5; notices %q", got, b.notices())
		}
	})
}
