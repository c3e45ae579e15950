package driver

import (
	"testing"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// What is published is what the metrics show, and our own volumes do not move it.
func TestPoolReadings(t *testing.T) {
	w := newWorld(t, worldOptions{})
	p := w.start(t)
	before := readingOf(t, p.PoolReadings(t.Context()), "thick")
	if before.Err != nil || before.AllocatableBytes != 4*gib || before.ExtentSizeBytes != 4*mib || before.Filesystem != capacity.FilesystemExt4 || before.Age < 0 {
		t.Errorf("reading %+v", before)
	}
	mustCreate(t, p, createReq("v1", "thick", 8*mib))
	if err := p.RefreshPools(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := readingOf(t, p.PoolReadings(t.Context()), "thick")
	if after.AllocatableBytes != before.AllocatableBytes {
		t.Errorf("a volume of ours moved allocatable from %d to %d", before.AllocatableBytes, after.AllocatableBytes)
	}
}

func readingOf(t *testing.T, readings []capacity.PoolReading, pool string) capacity.PoolReading {
	t.Helper()
	for _, r := range readings {
		if r.Pool == pool {
			return r
		}
	}
	t.Fatalf("no reading of pool %s in %+v", pool, readings)
	return capacity.PoolReading{}
}
