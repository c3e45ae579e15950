package e2e

import (
	"fmt"
	"testing"

	"github.com/csi-local/csi-local/test/cluster/installed"
)

const (
	stormRounds = 3
	perNode     = 10
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
		one, err := installed.FillBytes(b.published(t, n), perNode)
		if err != nil {
			t.Fatalf("%s: %v", n.Name(), err)
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
