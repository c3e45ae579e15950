package e2e

import (
	"errors"
	"testing"
)

// testPowerCut cuts the power of a node under a writer. What the writer was told to be on
// the disk is there afterwards, and the pod comes back without anybody's help.
func testPowerCut(t *testing.T, b bed) {
	b.apply(t, claim("data", class, 128*mib), pod("writer", writer, map[string]string{"data": ofClaim("data")}))
	b.wantReady(t, "writer")
	count := b.wantProgress(t, "writer", 20)
	n := b.nodeOf(t, "writer")
	before := b.logicalVolumes(t, n)
	if err := errors.Join(n.PowerCut(), n.Start(t.Context()), n.WaitReady(t.Context())); err != nil {
		t.Fatal(err)
	}
	// It begins where its file ends: a number that was lost would be missing.
	b.wantProgress(t, "writer", count)
	if after := b.logicalVolumes(t, n); len(after) != len(before) || after[0] != before[0] {
		t.Errorf("the node had %v and has %v", before, after)
	}
}
