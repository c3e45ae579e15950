package controller

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// addInUse puts a released volume that waits for its end on the host.
func addInUse(w *world, host string) {
	v := makeVolume("v-"+host, host)
	v.Status.Phase = v1.VolumeReleased
	w.addVolume(v)
}

func TestBrake(t *testing.T) {
	for _, tt := range []struct {
		name           string
		nodes, missing int
		percent        int
		want           losses
	}{
		{"nothing", 0, 0, 30, losses{0, 0, 1}},
		{"one of one", 1, 1, 30, losses{1, 1, 1}},
		{"one of three", 3, 1, 1, losses{1, 3, 1}},
		{"two of three", 3, 2, 30, losses{2, 3, 1}},
		{"three of ten", 10, 3, 30, losses{3, 10, 3}},
		{"four of ten", 10, 4, 30, losses{4, 10, 3}},
		{"all, allowed", 10, 10, 100, losses{10, 10, 10}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			settings := testSettings()
			settings.MaxLostNodesPercent = tt.percent
			w := newWorld(t, settings)
			for i := range tt.nodes {
				w.addNode(fmt.Sprintf("n%d", i), `{"pool-ssd":"1"}`, nil)
				addInUse(w, fmt.Sprintf("n%d", i))
			}
			w.addNode("without-our-driver", "", nil)
			w.settle(t)
			for i := range tt.missing {
				w.removeNode(fmt.Sprintf("n%d", i))
			}
			w.settle(t)
			if got := w.c.countLosses(); got != tt.want {
				t.Errorf("losses %+v, want %+v", got, tt.want)
			}
			w.pass(t, time.Hour)
			writes := 0
			if tt.missing <= tt.want.allowed {
				writes = 2 * tt.missing // each volume is deleted and its finalizer removed
			}
			if len(w.writes) != writes {
				t.Errorf("writes %q, want %d", w.writes, writes)
			}
			if tt.missing > tt.want.allowed {
				checkEvent(t, w, "Warning v-n0 TooManyNodesMissing", w.c.countLosses().String())
			}
		})
	}
}

// The brake lets go when enough nodes are back.
func TestBrake_LetsGo(t *testing.T) {
	settings := testSettings()
	settings.MaxLostNodesPercent = 30
	w := newWorld(t, settings)
	for i := range 4 {
		w.addNode(fmt.Sprintf("n%d", i), `{"pool-ssd":"1"}`, nil)
		addInUse(w, fmt.Sprintf("n%d", i))
	}
	w.settle(t)
	w.removeNode("n0")
	w.removeNode("n1")
	w.pass(t, time.Hour)
	checkWrites(t, w)
	w.addNode("n1", "", nil)
	w.pass(t, 2*time.Minute)
	checkWrites(t, w, "delete volume v-n0", "remove finalizer v-n0")
}

// What is kept on nodes that went long ago does not hold the brake.
func TestBrake_KeptVolumesDoNotCount(t *testing.T) {
	settings := testSettings()
	settings.MaxLostNodesPercent = 30
	w := newWorld(t, settings)
	w.addNode("n0", `{"pool-ssd":"1"}`, nil)
	for i := range 10 {
		v := makeVolume(fmt.Sprintf("kept-%d", i), fmt.Sprintf("old-%d", i))
		v.Status.Phase, v.Spec.PersistentVolumeReclaimPolicy = v1.VolumeReleased, v1.PersistentVolumeReclaimRetain
		w.addVolume(v)
	}
	addInUse(w, "lost")
	w.settle(t)
	if got, want := w.c.countLosses(), (losses{1, 2, 1}); got != want {
		t.Errorf("losses %+v, want %+v", got, want)
	}
	w.pass(t, time.Hour)
	checkWrites(t, w, "delete volume v-lost", "remove finalizer v-lost")
}

// A node that is named by its hostname in volumes is one node, not two.
func TestBrake_CountsNodesNotNames(t *testing.T) {
	w := newWorld(t, testSettings())
	w.addNode("n0", `{"pool-ssd":"1"}`, map[string]string{v1.LabelHostname: "host-0"})
	addInUse(w, "n0")
	v := makeVolume("by-hostname", "")
	v.Spec.NodeAffinity, v.Labels = nil, map[string]string{v1.LabelHostname: "host-0"}
	w.addVolume(v)
	w.settle(t)
	if got, want := w.c.countLosses(), (losses{0, 1, 1}); got != want {
		t.Errorf("losses %+v, want %+v", got, want)
	}
}
