package service

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/csi-local/csi-local/test/nodeproc"
)

const (
	tenantPattern = 0xA5
	podA, podB    = "pod-a", "pod-b"
)

// What one tenant wrote is not readable by the next who gets the same extents:
// a raw volume is filled and deleted, and a volume over the whole pool is read
// from end to end. With the policy unsafe-none the bytes are there, as its name
// says (and as this test proves that it looks at the right extents).
func TestTenants_NextOneReadsZeros(t *testing.T) {
	for _, tt := range []struct {
		wipe, pool string
		leaks      bool
	}{
		{"zero", "thick", false},
		{"discard", "thick", false},
		{"unsafe-none", "thick", true},
		{"zero", "thin", false},
		{"discard", "thin", false},
	} {
		t.Run(tt.wipe+" "+tt.pool, func(t *testing.T) {
			b := newBed(t, tt.wipe)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			first := b.handOut(ctx, spec(tt.pool, "", "tenant-a", 512*mib), podA)
			fill(t, b.TargetPath(first, podA), first.CapacityBytes, tenantPattern)
			b.takeBack(ctx, first, podA)

			second := b.handOut(ctx, spec(tt.pool, "", "tenant-b", 1792*mib), podB)
			if found := count(t, b.TargetPath(second, podB), second.CapacityBytes); (found > 0) != tt.leaks {
				t.Errorf("%d bytes that are not zero, leaks should be %v", found, tt.leaks)
			}
			b.takeBack(ctx, second, podB)
			b.asBefore()
		})
	}
}

// The part by which a volume grows is as clean as a new volume.
func TestTenants_GrowthReadsZeros(t *testing.T) {
	b := newBed(t, "zero")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for _, pool := range []string{"thick", "thin"} {
		small := b.handOut(ctx, spec(pool, "", "small", 64*mib), podB)
		old := b.handOut(ctx, spec(pool, "", "old", 256*mib), podA)
		fill(t, b.TargetPath(old, podA), old.CapacityBytes, tenantPattern)
		b.takeBack(ctx, old, podA)
		if err := b.Expand(ctx, &small, podB, 320*mib); err != nil {
			t.Fatal(err)
		}
		if found := count(t, b.TargetPath(small, podB), small.CapacityBytes); found > 0 {
			t.Errorf("%s: %d bytes that are not zero", pool, found)
		}
		b.takeBack(ctx, small, podB)
	}
	b.asBefore()
}

func (b *bed) handOut(ctx context.Context, s nodeproc.Spec, pod string) nodeproc.Volume {
	b.t.Helper()
	v, err := b.Create(ctx, s)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.Stage(ctx, v); err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.Publish(ctx, v, pod, false); err != nil {
		b.t.Fatal(err)
	}
	return v
}

func (b *bed) takeBack(ctx context.Context, v nodeproc.Volume, pod string) {
	b.t.Helper()
	if err := b.Unpublish(ctx, v, pod); err != nil {
		b.t.Fatal(err)
	}
	if err := b.Unstage(ctx, v); err != nil {
		b.t.Fatal(err)
	}
	if err := retried(ctx, func() error { return b.Delete(ctx, v.ID) }); err != nil {
		b.t.Fatal(err)
	}
}

// count reads the whole device, which must be sizeBytes long, and counts the
// bytes that are not zero.
func count(t *testing.T, path string, sizeBytes int64) (found int64) {
	t.Helper()
	zeros := make([]byte, mib)
	var read int64
	allBytes(t, path, func(offset int64, piece []byte) {
		read = offset + int64(len(piece))
		if bytes.Equal(piece, zeros[:len(piece)]) {
			return
		}
		for _, c := range piece {
			if c != 0 {
				found++
			}
		}
	})
	if read != sizeBytes {
		t.Errorf("%d bytes could be read, the volume has %d", read, sizeBytes)
	}
	return found
}
