package controller

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/csi-local/csi-local/pkg/capacity"
)

func nodeMeta(name, pools string, labels map[string]string) *metav1.ObjectMeta {
	meta := &metav1.ObjectMeta{Name: name, Labels: labels}
	if pools != "" {
		meta.Annotations = map[string]string{capacity.PoolsAnnotation(testDriver): pools}
	}
	return meta
}

// A node that came and went between two questions does not inherit the time of
// its earlier absence.
func TestNodeBook_TimeBeginsAnew(t *testing.T) {
	b := newNodeBook(testDriver)
	start := time.Unix(1000, 0)
	if since, missing := b.missingSince("n1", start); !missing || !since.Equal(start) {
		t.Errorf("since %v, missing %v", since, missing)
	}
	if since, _ := b.missingSince("n1", start.Add(time.Hour)); !since.Equal(start) {
		t.Errorf("the second question begins anew: %v", since)
	}
	b.set(nodeMeta("n1", "", nil))
	b.remove("n1")
	later := start.Add(2 * time.Hour)
	if since, missing := b.missingSince("n1", later); !missing || !since.Equal(later) {
		t.Errorf("since %v, missing %v, want %v", since, missing, later)
	}
}

func TestNodeBook_Names(t *testing.T) {
	b := newNodeBook(testDriver)
	topology := capacity.TopologyKey(testDriver)
	b.set(nodeMeta("n1", "", map[string]string{v1.LabelHostname: "host", topology: "n1"}))
	b.set(nodeMeta("n2", "", map[string]string{v1.LabelHostname: "host"}))
	check := func(what string, present map[string]bool) {
		t.Helper()
		for host, want := range present {
			if _, missing := b.missingSince(host, time.Unix(1, 0)); missing == want {
				t.Errorf("%s: %s is missing: %v", what, host, missing)
			}
		}
	}
	check("two nodes", map[string]bool{"n1": true, "n2": true, "host": true, "n3": false})
	b.remove("n1")
	check("one of two with the hostname", map[string]bool{"n1": false, "n2": true, "host": true})
	b.set(nodeMeta("n2", "", map[string]string{v1.LabelHostname: "other", topology: "n1"}))
	check("labels changed", map[string]bool{"n1": true, "n2": true, "host": false, "other": true})
	b.remove("n2")
	b.remove("n2") // an event that comes twice
	check("no node", map[string]bool{"n1": false, "n2": false, "host": false, "other": false})
	if len(b.hosts) > 0 || len(b.nodes) > 0 {
		t.Errorf("left %v, %v", b.hosts, b.nodes)
	}
}

func TestNodeBook_Pools(t *testing.T) {
	b := newNodeBook(testDriver)
	for i, step := range []struct {
		node, pools string
		gone        bool
		changed     bool
		want        []string
	}{
		{node: "n1", pools: `{"a":"1","b":"1"}`, changed: true, want: []string{"a", "b"}},
		{node: "n1", pools: `{"a":"2","b":"1"}`, want: []string{"a", "b"}},
		{node: "n2", pools: `{"b":"1"}`, want: []string{"a", "b"}},
		{node: "n2", pools: `{"b":"x","c":"1"}`, changed: true, want: []string{"a", "b", "c"}},
		{node: "n1", pools: `{"b":"1"}`, changed: true, want: []string{"b", "c"}},
		{node: "n1", pools: `broken`, changed: true, want: []string{"b", "c"}},
		{node: "n1", pools: ``, changed: true, want: []string{"b", "c"}},
		{node: "n2", gone: true, changed: true},
		{node: "n2", gone: true},
	} {
		var changed bool
		if step.gone {
			_, changed = b.remove(step.node)
		} else {
			changed = b.set(nodeMeta(step.node, step.pools, nil))
		}
		got, _, _ := b.publishedPools()
		if diff := cmp.Diff(step.want, got); diff != "" || changed != step.changed {
			t.Errorf("step %d: changed %v (-want +got):\n%s", i, changed, diff)
		}
	}
	if len(b.pools) > 0 {
		t.Errorf("left %v", b.pools)
	}
}

// Deletions that the watch has missed come as tombstones (kubernetes client-go,
// DeletedFinalStateUnknown), the object old or missing.
func TestHandler_Tombstones(t *testing.T) {
	for name, tt := range map[string]struct {
		object any
		gone   string
	}{
		"the object itself":     {&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}, "v"},
		"tombstone":             {cache.DeletedFinalStateUnknown{Key: "v", Obj: &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}}, "v"},
		"key only":              {cache.DeletedFinalStateUnknown{Key: "v"}, "v"},
		"key that is no key":    {cache.DeletedFinalStateUnknown{Key: "a/b/c"}, ""},
		"tombstone of others":   {cache.DeletedFinalStateUnknown{Key: "v", Obj: &v1.Pod{}}, ""},
		"nothing":               {nil, ""},
		"typed nothing":         {(*v1.PersistentVolume)(nil), ""},
		"an object of others":   {&v1.Pod{}, ""},
		"tombstone in pointer":  {&cache.DeletedFinalStateUnknown{Key: "v"}, ""},
		"typed nothing in tomb": {cache.DeletedFinalStateUnknown{Key: "v", Obj: (*v1.PersistentVolume)(nil)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var gone string
			h := handler(func(before, now *v1.PersistentVolume) {
				if now != nil {
					t.Errorf("it is there: %v", now)
				}
				gone = before.Name
			})
			h.OnDelete(tt.object)
			if gone != tt.gone {
				t.Errorf("gone %q, want %q", gone, tt.gone)
			}
		})
	}
}
