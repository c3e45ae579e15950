package service

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/csi-local/csi-local/test/nodeproc"
)

// A hundred calls with one name make one volume and have one answer.
func TestCreate_HundredAtOnceWithOneName(t *testing.T) {
	b := newBed(t, "zero")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var (
		wait    sync.WaitGroup
		answers [100]nodeproc.Volume
	)
	for i := range answers {
		wait.Go(func() {
			err := retried(ctx, func() (err error) {
				answers[i], err = b.Create(ctx, spec("thick", "", "pvc-one", 64*mib))
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	for _, a := range answers[1:] {
		if a.ID != answers[0].ID || a.CapacityBytes != answers[0].CapacityBytes {
			t.Fatalf("answers differ: %+v and %+v", answers[0], a)
		}
	}
	if volumes, err := b.List(ctx); err != nil || len(volumes) != 1 {
		t.Errorf("%d volumes, %v; want one", len(volumes), err)
	}
	if err := b.Delete(ctx, answers[0].ID); err != nil {
		t.Error(err)
	}
	b.asBefore()
}

// A hundred volumes at once all succeed; so do a thousand creations and
// deletions, and leave the volume groups as they were.
func TestStorm_LeavesTheVolumeGroupsAsTheyWere(t *testing.T) {
	b := newBed(t, "zero")
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	var volumes [100]nodeproc.Volume
	each(t, len(volumes), len(volumes), func(i int) (err error) {
		volumes[i], err = b.Create(ctx, spec([]string{"thick", "thin"}[i%2], "", fmt.Sprintf("pvc-%d", i), 8*mib))
		return err
	})
	if found, err := b.List(ctx); err != nil || len(found) != len(volumes) {
		t.Errorf("%d volumes, %v; want %d", len(found), err, len(volumes))
	}
	each(t, len(volumes), len(volumes), func(i int) error { return b.Delete(ctx, volumes[i].ID) })
	b.asBefore()

	var done atomic.Int64
	each(t, 1000, 10, func(i int) error {
		v, err := b.Create(ctx, spec([]string{"thick", "thin"}[i%2], "", fmt.Sprintf("storm-%d", i), 8*mib))
		if err != nil {
			return err
		}
		if n := done.Add(1); n%100 == 0 {
			t.Logf("%d of 1000", n)
		}
		return b.Delete(ctx, v.ID)
	})
	b.asBefore()
}

// each calls do(0..count-1) from that many goroutines; an error is the test's.
func each(t *testing.T, count, goroutines int, do func(i int) error) {
	t.Helper()
	var (
		wait sync.WaitGroup
		next atomic.Int64
	)
	for range goroutines {
		wait.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= count {
					return
				}
				if err := do(i); err != nil {
					t.Errorf("%d: %v", i, err)
				}
			}
		})
	}
	wait.Wait()
}
