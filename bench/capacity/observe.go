package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/test/testbed"
)

// shown is what the Nodes' annotations say, as a scheduler would see it.
type shown struct {
	mu    sync.Mutex
	nodes map[string]string
}

func newShown(ctx context.Context, client kubernetes.Interface) *shown {
	s := &shown{nodes: map[string]string{}}
	see := func(object any) {
		if node, ok := object.(*corev1.Node); ok {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.nodes[node.Name] = node.Annotations[capacity.PoolsAnnotation(capacity.DefaultDriverName)]
		}
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	// The handler's registration serves to remove it, which nobody does.
	_, _ = factory.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: see, UpdateFunc: func(_, object any) { see(object) },
	})
	factory.StartWithContext(ctx)
	return s
}

// wait returns when every node shows the figure.
func (f *fleet) wait(ctx context.Context, bytes int64, within time.Duration) error {
	want := figure(bytes)
	return poll(ctx, within, "every node shows "+want, func() (bool, error) {
		f.shown.mu.Lock()
		defer f.shown.mu.Unlock()
		for _, n := range f.nodes {
			if f.shown.nodes[n.name] != want {
				return false, nil
			}
		}
		return true, nil
	})
}

// traffic is what the reporters asked of the API server in some time.
type traffic struct {
	requests, writes   int
	refused, throttled int           // 409, 429
	peak               int           // most writes that came within one second
	last               time.Duration // from the beginning to the last write that succeeded
}

func (t traffic) String() string {
	return fmt.Sprintf("%d requests, %d of them writes (%d conflicts), %d throttled; at most %d writes in a second, the last after %.2f s",
		t.requests, t.writes, t.refused, t.throttled, t.peak, t.last.Seconds())
}

// traffic reads the audit log from a moment on.
func (f *fleet) traffic(ctx context.Context, from time.Time) (traffic, error) {
	requests, err := f.cluster.Audit(ctx)
	if err != nil {
		return traffic{}, err
	}
	return measure(requests, from), nil
}

func measure(requests []testbed.Request, from time.Time) traffic {
	var t traffic
	var writes []time.Time
	for _, r := range requests {
		if !strings.HasPrefix(r.Agent, agent) || r.Received.Before(from) {
			continue
		}
		t.requests++
		if r.Code == 429 {
			t.throttled++
		}
		if !r.Write() {
			continue
		}
		t.writes++
		writes = append(writes, r.Received)
		switch {
		case r.Code == 409:
			t.refused++
		case r.Code/100 == 2:
			t.last = max(t.last, r.Received.Sub(from))
		}
	}
	t.peak = peak(writes, time.Second)
	return t
}

// peak is the most moments that lie within a window, wherever that begins.
func peak(moments []time.Time, window time.Duration) int {
	slices.SortFunc(moments, time.Time.Compare)
	most, first := 0, 0
	for i := range moments {
		for moments[i].Sub(moments[first]) >= window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// residentBytes is this process' resident memory, after garbage was given back.
func residentBytes() (int64, error) {
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}
