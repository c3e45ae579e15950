// Package incident holds a real scheduler on a real API server to what once went
// wrong in a predecessor: two classes shared one pool, the volumes of one of them
// only were counted, and when stress pods were deleted, 18 volumes (900 GiB) were
// counted as none while all of them were still on the node.
package incident

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/csi-local/csi-local/test/testbed"
)

const (
	gib         = int64(1) << 30
	volumeBytes = 50 * gib
	// worldsEnv says how many worlds are tried, if not defaultWorlds.
	worldsEnv     = "INCIDENT_WORLDS"
	defaultWorlds = 50
	// sideBySide is how many of them are at it at the same time.
	sideBySide = 25
)

func TestIncident_VolumesOfDeletedPodsStayCounted(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := newCluster(t, testbed.New(t, testbed.Options{WithoutAudit: true}))
	program, err := testbed.BuildLocalScheduler(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("in full", func(t *testing.T) {
		s := c.startScheduler(t, program, 5)
		w := c.newWorld(t, "full", seed, 18, 4)
		w.run()
		s.checkLog(t, w.pod("late", 0), w.pool, w.stress)
		s.checkLog(t, w.pod("probe", 0), w.pool, w.stress)
	})
	t.Run("in any order", func(t *testing.T) {
		c.startScheduler(t, program, 0)
		runWorlds(t, c, seed, worlds(t))
	})
}

func worlds(t *testing.T) int {
	text := os.Getenv(worldsEnv)
	if text == "" {
		return defaultWorlds
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", worldsEnv, err)
	}
	return n
}

// runWorlds goes through the incident in so many worlds, some side by side. Each
// has a node, a pool and two classes of its own, and its own order of all that can
// be in any order; the decisions must be the same.
func runWorlds(t *testing.T, c *cluster, seed uint64, n int) {
	start, places := time.Now(), make(chan struct{}, sideBySide)
	var group sync.WaitGroup
	for i := range n {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			name := fmt.Sprintf("w%d", i)
			t.Run(name, func(t *testing.T) { c.newWorld(t, name, seed+uint64(i)+1, 4, 2).run() })
		})
	}
	group.Wait()
	t.Logf("%d worlds in %s", n, time.Since(start).Round(time.Second))
}

// run goes through the incident. What is decided is the same whatever the order.
func (w *world) run() {
	defer w.leave()
	// The stress: exactly as many claims as fit, of both classes, in any order. The
	// pods may be there before the classes, and these before the node.
	classes := make([]string, w.stress)
	for i := range classes {
		classes[i] = []string{w.classA, w.classB}[i%2]
	}
	w.shuffle(len(classes), func(i, j int) { classes[i], classes[j] = classes[j], classes[i] })
	w.inAnyOrder(
		func() { w.createClasses(w.classA, w.classB) },
		w.createNode,
		func() {
			for i, class := range classes {
				w.createPod(w.pod("stress", i), class)
			}
		})
	w.waitScheduled("stress", w.stress, w.stress)

	// The node is full, and stays so until a volume is really gone.
	full := w.watch(w.pool, int64(w.stress)*volumeBytes)
	for i := range w.late {
		w.createPod(w.pod("late", i), classes[i])
	}
	for i := range w.late {
		w.waitRefused(w.pod("late", i))
	}
	// The stress pods go, with their claims and one of the classes; the volumes do not.
	kept, deleted := w.classA, w.classB
	if w.random.IntN(2) == 0 {
		kept, deleted = deleted, kept
	}
	third := w.name + "-a-third-class"
	steps := []func(){func() { w.deleteClass(deleted) }, func() { w.createClasses(third) }}
	for i := range w.stress {
		steps = append(steps, func() { w.deletePod(w.pod("stress", i)) })
	}
	w.inAnyOrder(steps...)
	w.createPod(w.pod("probe", 0), third)
	w.waitRefused(w.pod("probe", 0))
	if n := len(w.provisioner.volumeNames(w.node)); n != w.stress {
		w.t.Fatalf("%d volumes on the node, want %d", n, w.stress)
	}
	w.deletePod(w.pod("probe", 0))
	w.letIn(kept, full)
}

// letIn lets each volume that is really gone make room for one pod, and no more.
// Pods whose class is gone cannot have a volume any more, so they are made anew
// with one that is there.
func (w *world) letIn(class string, full *window) {
	for i := range w.late {
		w.deletePod(w.pod("late", i))
		w.createPod(w.pod("again", i), class)
	}
	for i := range w.late {
		w.waitRefused(w.pod("again", i))
	}
	full.end(w.t)
	names := w.provisioner.volumeNames(w.node)
	w.shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for freed := 1; freed <= w.late; freed++ {
		w.reclaim(names[freed-1])
		w.waitScheduled("again", w.late, freed)
	}
	most, refused := w.provisioner.outcome(w.node)
	if len(refused) > 0 {
		w.t.Errorf("sold twice: the provisioner had no room for %v", refused)
	}
	if want := int64(w.stress) * volumeBytes; most != want {
		w.t.Errorf("at most %d bytes were used, want all %d", most, want)
	}
}

func (w *world) shuffle(n int, swap func(i, j int)) { w.random.Shuffle(n, swap) }

func (w *world) inAnyOrder(steps ...func()) {
	w.shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	for _, step := range steps {
		step()
	}
}

// phases are what a volume without its claim may be in.
func (w *world) phase() v1.PersistentVolumePhase {
	return []v1.PersistentVolumePhase{v1.VolumeReleased, v1.VolumeFailed}[w.random.IntN(2)]
}

func (c *cluster) newWorld(t *testing.T, name string, seed uint64, stress, late int) *world {
	return &world{t: t, cluster: c, random: rand.New(rand.NewPCG(seed, 0)), stress: stress, late: late,
		name: name, node: "node-" + name, pool: "pool-" + name, classA: name + "-local-dynamic-ssd", classB: name + "-another-class"}
}
