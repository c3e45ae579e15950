// Package incident holds a real scheduler on a real API server to what once went
// wrong in a predecessor: two classes shared one pool, the volumes of one of them
// only were counted, and when stress pods were deleted, 18 volumes (900 GiB) were
// counted as none while all of them were still on the node.
package incident

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/csi-local/csi-local/test/testbed"
)

const (
	gib         = int64(1) << 30
	volumeBytes = 50 * gib
	// The node has room for exactly these.
	stressPods = 18
	latePods   = 4
	pool       = "pool-ssd"
	nodeName   = "n1"
	// Both classes have the one provisioner, and the one pool.
	classA, classB = "local-dynamic-ssd", "another-class-of-the-pool"
)

func TestIncident_VolumesOfDeletedPodsStayCounted(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	c := newCluster(t, testbed.New(t, testbed.Options{}))
	c.createClasses(random, classA, classB)
	c.createNode(stressPods * volumeBytes)
	s := c.startScheduler()

	// The stress: exactly as many claims as fit, of both classes, in any order.
	classes := make([]string, stressPods)
	for i := range classes {
		classes[i] = []string{classA, classB}[i%2]
	}
	random.Shuffle(len(classes), func(i, j int) { classes[i], classes[j] = classes[j], classes[i] })
	for i, class := range classes {
		c.createPod(fmt.Sprintf("stress-%d", i), class)
	}
	for i := range stressPods {
		c.waitScheduled(fmt.Sprintf("stress-%d", i))
	}

	// The node is full.
	for i := range latePods {
		c.createPod(fmt.Sprintf("late-%d", i), classes[i])
	}
	for i := range latePods {
		c.waitRefused(fmt.Sprintf("late-%d", i))
	}

	// The stress pods go, with their claims and one of the classes; the volumes do not.
	for _, i := range random.Perm(stressPods) {
		c.deletePod(fmt.Sprintf("stress-%d", i))
	}
	c.deleteClass(classB)
	c.createClasses(random, "a-third-class-of-the-pool")
	c.createPod("probe", "a-third-class-of-the-pool")
	c.waitRefused("probe")
	if n := len(c.provisioner.volumeNames()); n != stressPods {
		t.Fatalf("%d volumes on the node, want %d", n, stressPods)
	}
	s.checkLog("late-0", stressPods, volumeBytes)
	s.checkLog("probe", stressPods, volumeBytes)
	c.deletePod("probe")

	// Each volume that is really gone makes room for one pod; no more. Those whose class
	// is gone cannot be provisioned any more, so they are made anew with one that is there.
	for i := range latePods {
		c.deletePod(fmt.Sprintf("late-%d", i))
		c.createPod(fmt.Sprintf("again-%d", i), classA)
	}
	for i := range latePods {
		c.waitRefused(fmt.Sprintf("again-%d", i))
	}
	names := c.provisioner.volumeNames()
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for freed := 1; freed <= latePods; freed++ {
		c.reclaim(names[freed-1])
		c.waitScheduledAmong("again", latePods, freed)
	}
	if refused := c.provisioner.refusals(); len(refused) > 0 {
		t.Errorf("sold twice: the provisioner had no room for %v", refused)
	}
	if most := c.provisioner.most(); most != stressPods*volumeBytes {
		t.Errorf("at most %d bytes were used, want all %d", most, stressPods*volumeBytes)
	}
}
