package e2e

import (
	"fmt"
	"testing"

	"github.com/csi-local/csi-local/test/testbed"
)

const (
	stormRounds = 3
	perNode     = 10
	extent      = 4 * mib
)

// testStorm creates pods whose volumes fill both nodes to the last extent, all at once:
// all of them run and no creation fails. What is more waits, and says for what, until
// there is room.
func testStorm(t *testing.T, b bed) {
	for round := range stormRounds {
		size := b.exactFit(t)
		var all, pods []string
		for i := range perNode * len(b.Nodes()) {
			name := fmt.Sprintf("r%d-%d", round, i)
			all = append(all, claim(name, class, size), pod(name, forever, map[string]string{"data": ofClaim(name)}))
			pods = append(pods, name)
		}
		b.apply(t, all...)
		b.wantReady(t, pods...)
		if round == stormRounds-1 {
			testTooMany(t, b, size, pods)
		}
		b.wantNoFailedCreate(t)
		b.kubectl(t, "delete", "pod,persistentvolumeclaim", "--all")
		b.wantNoVolumes(t)
	}
}

// exactFit is the size of volumes of which perNode fit on a node and one more does not.
func (b bed) exactFit(t *testing.T) int64 {
	t.Helper()
	size := int64(0)
	for _, n := range b.Nodes() {
		published := b.published(t, n)
		one := published / perNode / extent * extent
		if rest := published - perNode*one; rest >= one {
			t.Fatalf("%d bytes of %s are left beside %d volumes of %d", rest, n.Name(), perNode, one)
		}
		if size != 0 && one != size {
			t.Fatalf("the nodes differ: volumes of %d and of %d bytes", size, one)
		}
		size = one
	}
	return size
}

// testTooMany adds two pods to full nodes.
func testTooMany(t *testing.T, b bed, size int64, pods []string) {
	b.apply(t, claim("more-1", class, size), claim("more-2", class, size),
		pod("more-1", forever, map[string]string{"data": ofClaim("more-1")}),
		pod("more-2", forever, map[string]string{"data": ofClaim("more-2")}))
	for _, name := range []string{"more-1", "more-2"} {
		b.wantEvent(t, name, pool, "requested", "left of")
		if phase := b.kubectl(t, "get", "pod", name, "-o", "jsonpath={.status.phase}"); phase != "Pending" {
			t.Errorf("%s is %s", name, phase)
		}
	}
	for _, name := range pods[:2] {
		b.kubectl(t, "delete", "pod", name)
		b.kubectl(t, "delete", "persistentvolumeclaim", name)
	}
	b.wantReady(t, "more-1", "more-2")
}

// testLimits changes what a node has, and looks at what it says and at who is woken.
func testLimits(t *testing.T, b bed) {
	n := b.Nodes()[0]
	before, disk := b.published(t, n), n.Disk(1)
	size := before + 512*mib // of one node, and more than any has
	b.apply(t, claim("large", class, size), pod("large", forever, map[string]string{"data": ofClaim("large")}))
	b.wantEvent(t, "large", pool, "requested", "left of")

	n.MustRun(t, "vgextend", group, disk)
	b.wantReady(t, "large")
	if grown := b.published(t, n); grown <= before {
		t.Errorf("%d bytes were published before vgextend, %d after", before, grown)
	}
	b.kubectl(t, "delete", "pod,persistentvolumeclaim", "large")
	b.wantNoVolumes(t)
	n.MustRun(t, "vgreduce", group, disk)
	n.MustRun(t, "lvcreate", "-y", "-an", "-Zn", "-n", "foreign", "-L", "512m", group)
	b.wantPublished(t, before-512*mib)
	n.MustRun(t, "lvremove", "-y", group+"/foreign")
	b.wantPublished(t, before)
}

// wantPublished waits for what node-1 says.
func (b bed) wantPublished(t *testing.T, want int64) {
	t.Helper()
	testbed.Eventually(t, patience, "what the node publishes", func() string {
		if got := b.published(t, b.Nodes()[0]); got != want {
			return fmt.Sprintf("%d bytes, want %d", got, want)
		}
		return ""
	})
}
