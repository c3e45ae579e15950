package driver

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

// wipes counts the wipes that run, by volume group, and holds each until release is closed.
type wipes struct {
	release chan struct{}
	started chan lvm.Ref

	mu            sync.Mutex
	running, most map[string]int
}

func newWipes() *wipes {
	return &wipes{
		release: make(chan struct{}), started: make(chan lvm.Ref, 100), running: map[string]int{}, most: map[string]int{},
	}
}

func (s *wipes) hook(ctx context.Context, c lvmfake.Call) error {
	if c.Op != lvmfake.OpZero {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	group := c.Ref.VolumeGroup
	switch c.Phase {
	case lvmfake.Before:
		s.running[group]++
		s.most[group] = max(s.most[group], s.running[group])
		s.started <- c.Ref
	case lvmfake.Halfway:
		s.mu.Unlock()
		select {
		case <-s.release:
		case <-ctx.Done():
		}
		s.mu.Lock()
	case lvmfake.After:
		s.running[group]--
	}
	return ctx.Err()
}

// wipeWorld has a second thick pool, "other" in vg-b, and a driver that wipes limit
// volumes of a group at once.
func wipeWorld(t *testing.T, limit int, hook lvmfake.Hook) (*world, *process) {
	t.Helper()
	w := newWorld(t, worldOptions{DiskBytes: 64 * mib, Devices: true})
	w.pools = append(w.pools, poolconfig.Pool{Name: "other", VolumeGroup: "vg-b", Type: capacity.PoolThick, OverprovisionRatio: 1, Wipe: capacity.WipeZero})
	client := w.client(t)
	client.SetHook(hook)
	d := w.driver(t, client)
	d.wipes = newWipeTurns(limit)
	return w, serve(t, d, client)
}

func usedVolumes(t *testing.T, p *process, pool string, count int) []string {
	t.Helper()
	var ids []string
	for i := range count {
		ids = append(ids, markUsed(t, p, mustCreate(t, p, createReq(fmt.Sprintf("%s-%d", pool, i), pool, 4*mib)).GetVolumeId(), "").ID())
	}
	return ids
}

// Twenty deletions at once must not starve the pods of the disks.
func TestWipe_FewAtOnceInEachVolumeGroup(t *testing.T) {
	s := newWipes()
	w, p := wipeWorld(t, 2, s.hook)
	before := w.look(t)
	ids := append(usedVolumes(t, p, "thick", 5), usedVolumes(t, p, "other", 1)...)
	var running sync.WaitGroup
	for _, id := range ids {
		running.Go(func() {
			short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_, err := p.controller.DeleteVolume(short, deleteRequest(id))
			wantCode(t, "DeleteVolume "+id, err, codes.DeadlineExceeded)
		})
	}
	running.Wait()
	for range 3 { // two in one group, one in the other
		receive(t, s.started, "wipe")
	}
	waiting := func() (count int) {
		for _, id := range ids {
			err := deleteVolume(t, p, id)
			wantCode(t, "DeleteVolume again "+id, err, codes.Aborted)
			if strings.Contains(status.Convert(err).Message(), "waiting until fewer than 2 volumes of volume group vg-a are being wiped") {
				count++
			}
		}
		return count
	}
	for deadline := time.Now().Add(patience); waiting() < 3; {
		if time.Now().After(deadline) {
			t.Fatalf("%d deletions say that they wait, want 3", waiting())
		}
	}
	close(s.release)
	for _, id := range ids {
		deleteUntilDone(t, p, id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most["vg-a"] != 2 || s.most["vg-b"] != 1 {
		t.Errorf("at most %v wipes at once", s.most)
	}
	if got := w.look(t); got["vg-a"].FreeExtents != before["vg-a"].FreeExtents || got["vg-b"].FreeExtents != before["vg-b"].FreeExtents {
		t.Errorf("left: %+v", got)
	}
}

// The driver stops while wipes run and others wait; the next one takes up all of
// them, as few at once.
func TestWipe_WaitingOnesAreTakenUpAfterARestart(t *testing.T) {
	s := newWipes()
	w, p := wipeWorld(t, 1, s.hook)
	var answered sync.WaitGroup
	for _, id := range usedVolumes(t, p, "thick", 3) {
		answered.Go(func() { wantCode(t, "DeleteVolume "+id, deleteVolume(t, p, id), codes.Unavailable) })
	}
	receive(t, s.started, "wipe")
	condemned := func() (count int) {
		for _, tags := range w.look(t)["vg-a"].Volumes {
			if strings.Contains(strings.Join(tags, " "), "state=deleting") {
				count++
			}
		}
		return count
	}
	for deadline := time.Now().Add(patience); condemned() < 3 && time.Now().Before(deadline); {
	}
	p.stop()
	if err := receive(t, p.served, "end of Serve"); err != nil {
		t.Errorf("Serve: %v", err)
	}
	answered.Wait()
	if got := condemned(); got != 3 {
		t.Fatalf("%d volumes wait for the next start, want 3", got)
	}
	again := newWipes()
	close(again.release)
	client := w.client(t)
	client.SetHook(again.hook)
	d := w.driver(t, client)
	d.wipes = newWipeTurns(1)
	serve(t, d, client)
	awaitState(t, client, func(s *lvm.State) bool {
		group, _ := s.VolumeGroup("vg-a")
		return len(group.LogicalVolumes) == 0
	})
	again.mu.Lock()
	defer again.mu.Unlock()
	if again.most["vg-a"] != 1 {
		t.Errorf("at most %v wipes at once", again.most)
	}
}
