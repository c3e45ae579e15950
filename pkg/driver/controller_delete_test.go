package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

// tenantByte fills volumes of the first tenant.
const tenantByte = 0xA5

func fill(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.WriteFile(path, bytes.Repeat([]byte{tenantByte}, int(size)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// dirty counts the bytes of a device that are not zero.
func dirty(t *testing.T, path string) int {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return len(data) - bytes.Count(data, []byte{0})
}

func deleteRequest(id string) *csi.DeleteVolumeRequest { return &csi.DeleteVolumeRequest{VolumeId: id} }

func deleteVolume(t *testing.T, p *process, id string) error {
	t.Helper()
	_, err := p.controller.DeleteVolume(t.Context(), deleteRequest(id))
	return err
}

// deleteUntilDone repeats the call while an earlier one goes on.
func deleteUntilDone(t *testing.T, p *process, id string) {
	t.Helper()
	for {
		err := deleteVolume(t, p, id)
		if err == nil {
			return
		}
		if status.Code(err) != codes.Aborted {
			t.Fatal(err)
		}
	}
}

// topolvm/topolvm#1150: a new raw block volume showed the previous owner's bytes.
func TestDeleteVolume_NextTenantReadsZeros(t *testing.T) {
	for _, tt := range []struct {
		policy    capacity.WipePolicy
		wantDirty bool
	}{
		{capacity.WipeZero, false},
		{capacity.WipeDiscard, false},
		{capacity.WipeUnsafeNone, true},
	} {
		t.Run(string(tt.policy), func(t *testing.T) {
			w := newWorld(t, worldOptions{DiskBytes: 64 * mib, Devices: true})
			w.setPool("thick", func(p *poolconfig.Pool) { p.Wipe = tt.policy })
			p := w.start(t)
			before := w.look(t)
			v := markUsed(t, p, mustCreate(t, p, createReq("tenant-1", "thick", 16*mib)).GetVolumeId(), "")
			fill(t, v.Path, v.SizeBytes)
			mustDelete(t, p, v.ID())
			if diff := cmp.Diff(before, w.look(t)); diff != "" {
				t.Errorf("(-before +after)\n%s", diff)
			}
			// All of the free space, so that wherever the first one was, it is in here.
			next := mustCreate(t, p, createReq("tenant-2", "thick", 128*mib))
			path := markUsed(t, p, next.GetVolumeId(), "").Path
			if n := dirty(t, path); (n > 0) != tt.wantDirty {
				t.Errorf("the next tenant reads %d bytes of the first one's", n)
			}
		})
	}
}

// The policy in force is the stricter one of creation and now.
func TestDeleteVolume_StricterPolicyWins(t *testing.T) {
	for _, tt := range []struct {
		created, now capacity.WipePolicy
		wantWipe     bool
	}{
		{capacity.WipeZero, capacity.WipeUnsafeNone, true},
		{capacity.WipeUnsafeNone, capacity.WipeZero, true},
		{capacity.WipeUnsafeNone, capacity.WipeUnsafeNone, false},
	} {
		t.Run(fmt.Sprintf("%s then %s", tt.created, tt.now), func(t *testing.T) {
			w := newWorld(t, worldOptions{DiskBytes: 64 * mib, Devices: true})
			w.setPool("thick", func(p *poolconfig.Pool) { p.Wipe = tt.created })
			p := w.start(t)
			id := mustCreate(t, p, createReq("v", "thick", 8*mib)).GetVolumeId()
			markUsed(t, p, id, "")
			w.setPool("thick", func(p *poolconfig.Pool) { p.Wipe = tt.now })
			mustDelete(t, p, id)
			wiped := false
			for _, c := range p.lvm.Calls() {
				wiped = wiped || c.Op == lvmfake.OpZero
			}
			if wiped != tt.wantWipe {
				t.Errorf("wiped: %v, want %v", wiped, tt.wantWipe)
			}
		})
	}
}

func TestDeleteVolume_NeverHandedOutIsNotWiped(t *testing.T) {
	w := newWorld(t, worldOptions{DiskBytes: 64 * mib, Devices: true})
	p := w.start(t)
	id := mustCreate(t, p, createReq("v", "thick", 8*mib)).GetVolumeId()
	before := len(p.lvm.Calls())
	mustDelete(t, p, id)
	for _, c := range p.lvm.Calls()[before:] {
		if c.Op == lvmfake.OpZero || c.Op == lvmfake.OpActivate {
			t.Errorf("%s of a volume that holds nobody's bytes", c.Op)
		}
	}
}

// lvmteam/lvm2#49, metal-stack/csi-driver-lvm#157: deletion while in use.
func TestDeleteVolume_InUseIsLeftAlone(t *testing.T) {
	for _, state := range []volumeState{stateNew, stateUsed} {
		for _, pool := range []string{"thick", "thin"} {
			t.Run(string(state)+" "+pool, func(t *testing.T) {
				w := newWorld(t, worldOptions{DiskBytes: 128 * mib, Devices: true})
				p := w.start(t)
				id := mustCreate(t, p, createReq("v", pool, 8*mib)).GetVolumeId()
				ref, err := parseVolumeID(id)
				if err != nil {
					t.Fatal(err)
				}
				if state == stateUsed {
					markUsed(t, p, id, "")
				} else if _, err := p.lvm.Activate(t.Context(), ref); err != nil {
					t.Fatal(err)
				}
				v, err := p.lookup(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				fill(t, v.Path, v.SizeBytes)
				if err := w.machine.SetOpen(ref, 1); err != nil {
					t.Fatal(err)
				}
				before := w.look(t)
				err = deleteVolume(t, p, id)
				wantCode(t, "DeleteVolume", err, codes.FailedPrecondition)
				if msg := status.Convert(err).Message(); !strings.Contains(msg, id) || !strings.Contains(msg, "1 openers") {
					t.Errorf("message %q does not say what is in use", msg)
				}
				if n := int64(dirty(t, v.Path)); n != v.SizeBytes {
					t.Errorf("only %d of %d bytes are left", n, v.SizeBytes)
				}
				if diff := cmp.Diff(before, w.look(t)); diff != "" {
					t.Errorf("(-before +after)\n%s", diff)
				}
				if err := w.machine.SetOpen(ref, 0); err != nil {
					t.Fatal(err)
				}
				mustDelete(t, p, id)
				mustDelete(t, p, id)
			})
		}
	}
}

func TestDeleteVolume_WhatIsNotOursIsLeftAlone(t *testing.T) {
	w := newWorld(t, worldOptions{})
	p := w.start(t)
	inline := []string{"csi-local/driver=" + testDriver, "csi-local/name=csi-abc", "csi-local/pool=thick", "csi-local/state=new", "csi-local/pod=uid"}
	for name, tags := range map[string][]string{"foreign": nil, "csi-abc": inline, "broken": {"csi-local/driver=" + testDriver}} {
		_, err := p.lvm.Create(t.Context(), lvm.CreateRequest{
			Ref: lvm.Ref{VolumeGroup: "vg-a", Name: name}, SegmentType: lvm.SegLinear, SizeBytes: 8 * mib, Tags: tags,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	before := w.look(t)
	for id, want := range map[string]codes.Code{
		"vg-a/foreign": codes.OK, "vg-b/tp0": codes.OK, "vg-a/csi-abc": codes.OK, "csi-abc": codes.OK, "vg-a/none": codes.OK,
		"something": codes.OK, "a/b/c": codes.OK, "": codes.InvalidArgument, strings.Repeat("a", 129): codes.InvalidArgument,
		// Not being able to look is not the same as being gone.
		"vg-other/lv": codes.FailedPrecondition, "vg-a/broken": codes.Internal,
	} {
		wantCode(t, "DeleteVolume "+id, deleteVolume(t, p, id), want)
	}
	if diff := cmp.Diff(before, w.look(t)); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
}

func TestDeleteVolume_VolumeGroupAwayIsNotDeleted(t *testing.T) {
	w := newWorld(t, worldOptions{})
	uuid, err := w.machine.AddGroup(lvmfake.Group{Name: "vg-c", Disks: []lvmfake.Disk{{SizeBytes: gib}}})
	if err != nil {
		t.Fatal(err)
	}
	client := w.client(t)
	if err := client.SetVolumeGroups([]lvm.VolumeGroupSelector{{Name: "vg-a"}, {Name: "vg-b"}, {Name: "vg-c"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.pools = append(w.pools, poolconfig.Pool{Name: "gone", VolumeGroup: "vg-c", Type: capacity.PoolThick, Wipe: capacity.WipeZero})
	p := w.startWith(t, client)
	id := mustCreate(t, p, createReq("v", "gone", 8*mib)).GetVolumeId()
	w.machine.RemoveGroup(uuid)
	if _, err := client.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "DeleteVolume", deleteVolume(t, p, id), codes.Unavailable)
	_, err = p.controller.ListVolumes(t.Context(), &csi.ListVolumesRequest{})
	wantCode(t, "ListVolumes, which would show it as deleted", err, codes.Unavailable)
	_, err = p.controller.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: id})
	wantCode(t, "ControllerGetVolume", err, codes.Unavailable)
}

// A wipe that takes longer than the caller waits goes on, says how far it is,
// and the name is not free before it has ended.
func TestDeleteVolume_WipeGoesOnWithoutTheCaller(t *testing.T) {
	w := newWorld(t, worldOptions{DiskBytes: 64 * mib, Devices: true})
	p := w.start(t)
	before := w.look(t)
	v := markUsed(t, p, mustCreate(t, p, createReq("v", "thick", 16*mib)).GetVolumeId(), "")
	fill(t, v.Path, v.SizeBytes)
	release := make(chan struct{})
	p.lvm.SetHook(func(_ context.Context, c lvmfake.Call) error {
		if c.Op == lvmfake.OpZero && c.Phase == lvmfake.Halfway {
			<-release
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := p.controller.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: v.ID()})
	wantCode(t, "DeleteVolume", err, codes.DeadlineExceeded)
	err = deleteVolume(t, p, v.ID())
	wantCode(t, "DeleteVolume meanwhile", err, codes.Aborted)
	if msg := status.Convert(err).Message(); !strings.Contains(msg, "50 % wiped") {
		t.Errorf("message %q does not say how far it is", msg)
	}
	_, err = p.controller.CreateVolume(t.Context(), createReq("v", "thick", 16*mib))
	wantCode(t, "CreateVolume meanwhile", err, codes.Aborted)
	usage := func() int64 {
		resp, err := p.controller.GetCapacity(t.Context(), &csi.GetCapacityRequest{Parameters: map[string]string{"pool": "thick"}})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetAvailableCapacity()
	}
	if got := usage(); got != 112*mib {
		t.Errorf("available while wiping: %d, want the volume's bytes still charged", got)
	}
	close(release)
	deleteUntilDone(t, p, v.ID())
	if got := usage(); got != 128*mib {
		t.Errorf("available after the wipe: %d", got)
	}
	if diff := cmp.Diff(before, w.look(t)); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
}

// Nobody need ask again: the next process finishes what was accepted.
func TestDeleteVolume_NextProcessResumesTheWipe(t *testing.T) {
	w := newWorld(t, worldOptions{DiskBytes: 64 * mib, Devices: true})
	p := w.start(t)
	before := w.look(t)
	v := markUsed(t, p, mustCreate(t, p, createReq("v", "thick", 16*mib)).GetVolumeId(), "")
	fill(t, v.Path, v.SizeBytes)
	p.lvm.SetHook(func(_ context.Context, c lvmfake.Call) error {
		if c.Op == lvmfake.OpZero && c.Phase == lvmfake.Halfway {
			return lvmfake.ErrCrash
		}
		return nil
	})
	wantCode(t, "DeleteVolume in a process that dies", deleteVolume(t, p, v.ID()), codes.Unavailable)
	if err := w.machine.Reboot(); err != nil {
		t.Fatal(err)
	}
	next := w.start(t)
	awaitState(t, next.lvm, func(s *lvm.State) bool {
		_, there := s.LogicalVolume(v.Ref())
		return !there
	})
	if diff := cmp.Diff(before, w.look(t)); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
	path := markUsed(t, next, mustCreate(t, next, createReq("v2", "thick", 128*mib)).GetVolumeId(), "").Path
	if n := dirty(t, path); n > 0 {
		t.Errorf("the next tenant reads %d bytes of the first one's", n)
	}
}

// Stopping does not wait for a wipe, only for the command that runs.
func TestDeleteVolume_WipeStopsWithTheDriver(t *testing.T) {
	w := newWorld(t, worldOptions{DiskBytes: 64 * mib, Devices: true})
	p := w.start(t)
	id := mustCreate(t, p, createReq("v", "thick", 16*mib)).GetVolumeId()
	markUsed(t, p, id, "")
	halfway := make(chan struct{})
	p.lvm.SetHook(func(ctx context.Context, c lvmfake.Call) error {
		if c.Op == lvmfake.OpZero && c.Phase == lvmfake.Halfway {
			close(halfway)
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})
	result := make(chan error, 1)
	go func() { result <- deleteVolume(t, p, id) }()
	receive(t, halfway, "wipe")
	p.stop()
	if err := receive(t, p.served, "end of Serve"); err != nil {
		t.Errorf("Serve: %v", err)
	}
	wantCode(t, "DeleteVolume", receive(t, result, "answer"), codes.Unavailable)
	if tags := w.look(t)["vg-a"].Volumes["v"]; !strings.Contains(strings.Join(tags, " "), "state=deleting") {
		t.Errorf("tags %v, want state=deleting for the next start", tags)
	}
}

func TestDeleteVolume_WipeFails(t *testing.T) {
	w := newWorld(t, worldOptions{DiskBytes: 64 * mib, Devices: true})
	p := w.start(t)
	id := mustCreate(t, p, createReq("v", "thick", 16*mib)).GetVolumeId()
	markUsed(t, p, id, "")
	broken := errors.New("input/output error")
	p.lvm.SetHook(func(_ context.Context, c lvmfake.Call) error {
		if c.Op == lvmfake.OpZero && c.Phase == lvmfake.Halfway {
			return broken
		}
		return nil
	})
	wantCode(t, "DeleteVolume", deleteVolume(t, p, id), codes.Internal)
	if _, there := w.look(t)["vg-a"].Volumes["v"]; !there {
		t.Error("the volume was removed without having been wiped")
	}
	_, err := p.controller.CreateVolume(t.Context(), createReq("v", "thick", 16*mib))
	wantCode(t, "CreateVolume of the same name", err, codes.Aborted)
	p.lvm.SetHook(nil)
	mustDelete(t, p, id)
}
