package driver

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

func TestCreateVolume_DeadlineNeitherKillsNorForgets(t *testing.T) {
	w := newWorld(t, worldOptions{})
	p := w.start(t)
	entered, release := make(chan struct{}), make(chan struct{})
	p.lvm.SetHook(func(ctx context.Context, c lvmfake.Call) error {
		if c.Op == lvmfake.OpCreate && c.Phase == lvmfake.Before && c.Ref.Name == "slow" {
			close(entered)
			<-release
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := p.controller.CreateVolume(ctx, createReq("slow", "thick", 8*mib))
		first <- err
	}()
	receive(t, entered, "lvcreate")
	short, cancelShort := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancelShort()
	_, err := p.controller.CreateVolume(short, createReq("waiting", "thick", 8*mib))
	wantCode(t, "CreateVolume behind a hanging LVM", err, codes.DeadlineExceeded)
	_, err = p.controller.CreateVolume(t.Context(), createReq("slow", "thick", 8*mib))
	wantCode(t, "the same volume meanwhile", err, codes.Aborted)
	_, err = p.controller.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: "vg-a/slow"})
	wantCode(t, "its deletion meanwhile", err, codes.Aborted)
	if _, err := p.controller.ListVolumes(t.Context(), &csi.ListVolumesRequest{}); err != nil {
		t.Errorf("ListVolumes while LVM hangs: %v", err)
	}
	if _, err := p.controller.GetCapacity(t.Context(), &csi.GetCapacityRequest{}); err != nil {
		t.Errorf("GetCapacity while LVM hangs: %v", err)
	}
	cancel()
	wantCode(t, "the first call", receive(t, first, "answer"), codes.Canceled)
	close(release)
	v := eventually(t, p, createReq("slow", "thick", 8*mib))
	if v.GetVolumeId() != "vg-a/slow" {
		t.Errorf("volume %q", v.GetVolumeId())
	}
	if got := len(w.look(t)["vg-a"].Volumes); got != 1 {
		t.Errorf("%d volumes, want the one; what waited was given up without a trace", got)
	}
}

func eventually(t *testing.T, p *process, req *csi.CreateVolumeRequest) *csi.Volume {
	t.Helper()
	for {
		resp, err := p.controller.CreateVolume(t.Context(), req)
		switch status.Code(err) {
		case codes.OK:
			return resp.GetVolume()
		case codes.Aborted:
		default:
			t.Fatalf("CreateVolume: %v", err)
		}
	}
}

func TestCreateVolume_HundredAtOnceWithOneName(t *testing.T) {
	w := newWorld(t, worldOptions{})
	p := w.start(t)
	ids := hundred(t, p, func(int) *csi.CreateVolumeRequest { return createReq("pvc-1", "thick", 8*mib) })
	if len(ids) != 1 || len(w.look(t)["vg-a"].Volumes) != 1 {
		t.Errorf("answers %v, volumes %v; want one", ids, w.look(t)["vg-a"].Volumes)
	}
}

func TestCreateVolume_HundredAtOnceWithOneNameInTwoPools(t *testing.T) {
	w := newWorld(t, worldOptions{})
	p := w.start(t)
	var answers sync.Map
	var running sync.WaitGroup
	for i := range 100 {
		running.Go(func() {
			resp, err := p.controller.CreateVolume(t.Context(), createReq("pvc-1", []string{"thick", "thin"}[i%2], 8*mib))
			switch status.Code(err) {
			case codes.OK:
				answers.Store(resp.GetVolume().GetVolumeId(), true)
			case codes.Aborted, codes.AlreadyExists:
			default:
				t.Errorf("CreateVolume: %v", err)
			}
		})
	}
	running.Wait()
	n := 0
	answers.Range(func(_, _ any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d different volumes were answered, want 1", n)
	}
}

func TestCreateVolume_NameIsTakenInAllPools(t *testing.T) {
	w := newWorld(t, worldOptions{})
	p := w.start(t)
	entered, release := make(chan struct{}), make(chan struct{})
	p.lvm.SetHook(func(_ context.Context, c lvmfake.Call) error {
		if c.Op == lvmfake.OpCreate && c.Phase == lvmfake.Before && c.Ref.VolumeGroup == "vg-a" {
			close(entered)
			<-release
		}
		return nil
	})
	first := make(chan error, 1)
	go func() {
		_, err := p.controller.CreateVolume(t.Context(), createReq("v", "thick", 8*mib))
		first <- err
	}()
	receive(t, entered, "lvcreate")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := p.controller.CreateVolume(ctx, createReq("v", "thin", 8*mib))
	wantCode(t, "the same name in another pool", err, codes.Aborted)
	close(release)
	wantCode(t, "the first call", receive(t, first, "answer"), codes.OK)
	_, err = p.controller.CreateVolume(t.Context(), createReq("v", "thin", 8*mib))
	wantCode(t, "the same name in another pool, later", err, codes.AlreadyExists)
}

// csi-provisioner asks once more for a volume whose PersistentVolume it has not seen yet.
// A pod may use it by then.
func TestCreateVolume_AgainWhileTheVolumeIsBusy(t *testing.T) {
	grown := func(r *csi.CreateVolumeRequest) { r.CapacityRange.RequiredBytes = 16 * mib }
	for _, tt := range []struct {
		running operationKind
		change  func(*csi.CreateVolumeRequest)
		orphan  bool
		want    codes.Code
	}{
		{running: opStaging, want: codes.OK},
		{running: opUnstaging, want: codes.OK},
		{running: opPublication, want: codes.OK},
		{running: opUnpublication, want: codes.OK},
		{running: opExpansion, want: codes.OK},
		{running: opStaging, change: grown, want: codes.AlreadyExists},
		{running: opStaging, change: func(r *csi.CreateVolumeRequest) { r.Parameters["pool"] = "thin" }, want: codes.AlreadyExists},
		{running: opStaging, orphan: true, want: codes.Aborted},
		{running: opCreation, want: codes.Aborted},
		{running: opDeletion, want: codes.Aborted},
		{running: opMarking, want: codes.Aborted},
	} {
		t.Run(fmt.Sprintf("%s, %v", tt.running, tt.want), func(t *testing.T) {
			p := newWorld(t, worldOptions{}).start(t)
			req := createReq("pvc-1", "thick", 8*mib)
			first := mustCreate(t, p, req)
			if tt.orphan {
				mark(t, p, candidate(t, p), false, orphanSince)
			}
			if tt.change != nil {
				tt.change(req)
			}
			err := p.operations.run(t.Context(), "pvc-1", tt.running, func(ctx, _ context.Context) error {
				again, err := p.controller.CreateVolume(ctx, req)
				wantCode(t, "CreateVolume", err, tt.want)
				if err == nil && !proto.Equal(again.GetVolume(), first) {
					t.Errorf("answers %v, and %v at first", again.GetVolume(), first)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("staging of a volume that LVM does not list", func(t *testing.T) {
		p := newWorld(t, worldOptions{}).start(t)
		err := p.operations.run(t.Context(), "pvc-1", opStaging, func(ctx, _ context.Context) error {
			_, err := p.controller.CreateVolume(ctx, createReq("pvc-1", "thick", 8*mib))
			wantCode(t, "CreateVolume", err, codes.Aborted)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestCreateVolume_AdmissionEndsWithTheState(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.setPool("thick", func(p *poolconfig.Pool) { p.ReserveBytes = 4*gib - 128*mib })
	p := w.start(t)
	entered, release := make(chan struct{}), make(chan struct{})
	p.lvm.SetHook(func(_ context.Context, c lvmfake.Call) error {
		if c.Op == lvmfake.OpCreate && c.Phase == lvmfake.After && c.Ref.Name == "first" {
			close(entered)
			<-release
		}
		return nil
	})
	answers := make(chan error, 2)
	create := func(name string) {
		_, err := p.controller.CreateVolume(t.Context(), createReq(name, "thick", 64*mib))
		answers <- err
	}
	go create("first")
	receive(t, entered, "lvcreate")
	go create("second")
	held := func() int {
		p.admissions.mu.Lock()
		defer p.admissions.mu.Unlock()
		return len(p.admissions.held)
	}
	deadline := time.Now().Add(patience)
	for held() < 2 && len(answers) == 0 && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if held() < 2 {
		t.Error("the second volume was not admitted while the first one's call went on")
	}
	close(release)
	for range 2 {
		wantCode(t, "CreateVolume", receive(t, answers, "answer"), codes.OK)
	}
}

func TestCreateVolume_HundredAtOnceWithDifferentNames(t *testing.T) {
	for _, pool := range []string{"thick", "thin"} {
		t.Run(pool, func(t *testing.T) {
			w := newWorld(t, worldOptions{})
			p := w.start(t)
			before := w.look(t)
			ids := hundred(t, p, func(i int) *csi.CreateVolumeRequest {
				return createReq(fmt.Sprintf("pvc-%d", i), pool, 8*mib)
			})
			if len(ids) != 100 {
				t.Errorf("%d volumes, want 100", len(ids))
			}
			var running sync.WaitGroup
			for id := range ids {
				running.Go(func() {
					if _, err := p.controller.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id}); err != nil {
						t.Errorf("DeleteVolume: %v", err)
					}
				})
			}
			running.Wait()
			if diff := cmp.Diff(before, w.look(t)); diff != "" {
				t.Errorf("(-before +after)\n%s", diff)
			}
		})
	}
}

func hundred(t *testing.T, p *process, req func(i int) *csi.CreateVolumeRequest) map[string]bool {
	t.Helper()
	var mu sync.Mutex
	ids := map[string]bool{}
	var running sync.WaitGroup
	for i := range 100 {
		running.Go(func() {
			for {
				resp, err := p.controller.CreateVolume(t.Context(), req(i))
				if status.Code(err) == codes.Aborted {
					continue
				}
				if err != nil {
					t.Errorf("CreateVolume: %v", err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				ids[resp.GetVolume().GetVolumeId()] = true
				return
			}
		})
	}
	running.Wait()
	return ids
}

func TestCreateVolume_AtOnceFillsThePoolExactly(t *testing.T) {
	for _, tt := range []struct {
		pool   string
		change func(*poolconfig.Pool)
		want   int // volumes of 64 MiB
	}{
		{"thick", func(p *poolconfig.Pool) { p.ReserveBytes = 3 * gib }, 16},
		{"thin", func(p *poolconfig.Pool) { p.OverprovisionRatio = 0.5 }, 16},
	} {
		t.Run(tt.pool, func(t *testing.T) {
			w := newWorld(t, worldOptions{})
			w.setPool(tt.pool, tt.change)
			p := w.start(t)
			var mu sync.Mutex
			made := 0
			var running sync.WaitGroup
			for i := range 40 {
				running.Go(func() {
					_, err := p.controller.CreateVolume(t.Context(), createReq(fmt.Sprintf("pvc-%d", i), tt.pool, 64*mib))
					mu.Lock()
					defer mu.Unlock()
					switch status.Code(err) {
					case codes.OK:
						made++
					case codes.ResourceExhausted:
					default:
						t.Errorf("CreateVolume: %v", err)
					}
				})
			}
			running.Wait()
			if made != tt.want {
				t.Errorf("%d volumes were made, want %d", made, tt.want)
			}
			resp, err := p.controller.GetCapacity(t.Context(), &csi.GetCapacityRequest{Parameters: map[string]string{"pool": tt.pool}})
			if err != nil || resp.GetAvailableCapacity() != 0 {
				t.Errorf("available %d, %v; want 0", resp.GetAvailableCapacity(), err)
			}
		})
	}
}
