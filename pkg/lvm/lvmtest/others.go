package lvmtest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/csi-local/csi-local/pkg/lvm"
)

func otherCases() []bedCase {
	return []bedCase{
		{"Refresh_SeesWhatOthersDid", foreignChanges},
		{"Refresh_SharesOneSnapshot", generations},
		{"Parallel_NothingLost", parallel},
		{"Parallel_OneOfManyGetsTheName", race},
		{"Parallel_LastExtentsGoOnce", raceForSpace},
	}
}

func foreignChanges(t *testing.T, b *bed) {
	changes, cancel := b.client.Subscribe()
	defer cancel()
	b.machine.Create(t, b.ref("foreign"), 8*mib)
	if _, ok := b.refreshed(t).LogicalVolume("foreign"); !ok {
		t.Error("a foreign volume is not seen")
	}
	select {
	case <-changes:
	default:
		t.Error("subscribers were not told")
	}
	b.machine.Tag(t, b.ref("foreign"), "theirs")
	if lv, _ := b.refreshed(t).LogicalVolume("foreign"); len(lv.Tags) != 1 || lv.Tags[0] != "theirs" {
		t.Errorf("a foreign tag is not seen: %+v", lv)
	}
	if _, err := b.client.Create(t.Context(), b.linear("foreign", 8*mib)); !errors.Is(err, lvm.ErrExists) {
		t.Errorf("Create of a foreign name: %v", err)
	}
	b.machine.Remove(t, b.ref("foreign"))
	if _, ok := b.refreshed(t).LogicalVolume("foreign"); ok {
		t.Error("a removed volume is still seen")
	}
	// A name that others took since the last report.
	b.machine.Create(t, b.ref("late"), 8*mib)
	if _, err := b.client.Create(t.Context(), b.linear("late", 8*mib)); !errors.Is(err, lvm.ErrExists) {
		t.Errorf("Create of a name just taken: %v", err)
	}
	if _, ok := b.known(t, b.ref("late")); !ok {
		t.Error("what the failure showed is not in the state")
	}
}

func generations(t *testing.T, b *bed) {
	read := func() *lvm.State {
		state, err := b.client.Refresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	first, second := read(), read()
	if first.Generation != second.Generation || second.Taken.Before(first.Taken) {
		t.Errorf("without a change: generation %d then %d", first.Generation, second.Generation)
	}
	b.create(t, b.linear("a", 8*mib))
	state, err := b.client.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if state.Generation <= second.Generation {
		t.Errorf("generation %d after Create, %d before", state.Generation, second.Generation)
	}
	if _, ok := second.LogicalVolume(b.ref("a")); ok {
		t.Error("an old state was changed")
	}
}

func parallel(t *testing.T, b *bed) {
	const workers, turns = 4, 3
	errs := make(chan error, workers)
	for w := range workers {
		go func() {
			var err error
			for turn := range turns {
				ref := b.ref(fmt.Sprintf("w%d-%d", w, turn))
				_, created := b.client.Create(t.Context(), b.linear(ref.Name, 4*mib))
				_, extended := b.client.Extend(t.Context(), ref, 8*mib)
				_, activated := b.client.Activate(t.Context(), ref)
				err = errors.Join(err, created, extended, activated, b.client.ChangeTags(t.Context(), ref, []string{"done"}, nil))
				if turn > 0 {
					err = errors.Join(err, b.client.Remove(t.Context(), b.ref(fmt.Sprintf("w%d-%d", w, turn-1))))
				}
			}
			errs <- err
		}()
	}
	for range workers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	known, err := b.client.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	vg := b.refreshed(t)
	for source, state := range map[string][]lvm.LogicalVolume{"Refresh": vg.LogicalVolumes, "State": known.VolumeGroups[0].LogicalVolumes} {
		if len(state) != workers {
			t.Errorf("%s: %d volumes, want %d", source, len(state), workers)
		}
		for _, lv := range state {
			if lv.SizeBytes != 8*mib || !lv.Active || len(lv.Tags) != 1 {
				t.Errorf("%s: %+v", source, lv)
			}
		}
	}
}

// together calls all at once and counts the outcomes.
func together(calls int, call func(i int) error) (ok int, failed []error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			err := call(i)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				ok++
			} else {
				failed = append(failed, err)
			}
		})
	}
	wg.Wait()
	return ok, failed
}

func race(t *testing.T, b *bed) {
	ok, failed := together(4, func(int) error {
		_, err := b.client.Create(t.Context(), b.linear("one", 8*mib))
		return err
	})
	if ok != 1 {
		t.Errorf("%d calls made the same volume", ok)
	}
	for _, err := range failed {
		if !errors.Is(err, lvm.ErrExists) {
			t.Errorf("a call that came late: %v", err)
		}
	}
}

func raceForSpace(t *testing.T, b *bed) {
	free := b.refreshed(t).FreeExtents
	b.create(t, b.linear("a", 4*mib))
	b.create(t, b.linear("b", 4*mib))
	b.create(t, b.linear("rest", (free-4)*b.extent))
	ok, failed := together(2, func(i int) error {
		_, err := b.client.Extend(t.Context(), b.ref([]string{"a", "b"}[i]), 12*mib)
		return err
	})
	if ok != 1 || len(failed) != 1 || !errors.Is(failed[0], lvm.ErrNoSpace) {
		t.Errorf("two for the last two extents: %d got them, %v", ok, failed)
	}
	if now := b.refreshed(t).FreeExtents; now != 0 {
		t.Errorf("%d extents are free", now)
	}
}
