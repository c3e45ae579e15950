package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

func TestCreateVolume_LeavesOthersVolumesAlone(t *testing.T) {
	for _, tt := range []struct {
		name string
		tags []string
		want codes.Code
	}{
		{"nobody's", nil, codes.FailedPrecondition},
		{"another driver's", []string{"csi-local/driver=other", "csi-local/name=pvc-1", "csi-local/pool=thick", "csi-local/state=new"}, codes.FailedPrecondition},
		{"ours, and unreadable", []string{"csi-local/driver=" + testDriver}, codes.Internal},
		{"ours, under another CSI name", []string{"csi-local/driver=" + testDriver, "csi-local/name=pvc-2", "csi-local/pool=thick", "csi-local/state=new"}, codes.FailedPrecondition},
	} {
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, known=%v", tt.name, known), func(t *testing.T) {
				w := newWorld(t, worldOptions{})
				p := w.start(t)
				// By hand, so the driver's state does not have it until it asks.
				_, err := w.client(t).Create(t.Context(), lvm.CreateRequest{
					Ref: lvm.Ref{VolumeGroup: "vg-a", Name: "pvc-1"}, SegmentType: lvm.SegLinear, SizeBytes: 8 * mib, Tags: tt.tags,
				})
				if err != nil {
					t.Fatal(err)
				}
				if known {
					if _, err := p.lvm.Refresh(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				before := w.look(t)
				_, err = p.controller.CreateVolume(t.Context(), createReq("pvc-1", "thick", 8*mib))
				wantCode(t, "CreateVolume", err, tt.want)
				if diff := cmp.Diff(before, w.look(t)); diff != "" {
					t.Errorf("(-before +after)\n%s", diff)
				}
			})
		}
	}
}

func TestCreateVolume_BrokenPoolsSendTheClaimElsewhere(t *testing.T) {
	tp0 := lvm.Ref{VolumeGroup: "vg-b", Name: "tp0"}
	for _, tt := range []struct {
		name, pool string
		breakIt    func(m *lvmfake.Machine) error
		says       string
	}{
		{"a second group of the name", "thick", func(m *lvmfake.Machine) error {
			_, err := m.AddGroup(lvmfake.Group{Name: "vg-a", Disks: []lvmfake.Disk{{SizeBytes: gib}}})
			return err
		}, "ambiguous"},
		{"a disk missing", "thick", func(m *lvmfake.Machine) error { return m.SetDiskMissing("vg-a", "/dev/disk2", true) }, "physical volume"},
		{"thin pool above its watermark", "thin", func(m *lvmfake.Machine) error {
			return m.SetPoolHealth(tp0, lvmfake.PoolHealth{DataPercent: 91})
		}, "available"},
		{"thin pool's metadata above its watermark", "thin", func(m *lvmfake.Machine) error {
			return m.SetPoolHealth(tp0, lvmfake.PoolHealth{MetadataPercent: 95})
		}, "available"},
		{"thin pool that needs repair", "thin", func(m *lvmfake.Machine) error {
			return m.SetPoolHealth(tp0, lvmfake.PoolHealth{NeedsCheck: true})
		}, "lvmthin(7)"},
		{"thin pool that does not zero", "thin", func(m *lvmfake.Machine) error {
			return m.SetPoolHealth(tp0, lvmfake.PoolHealth{NoZeroing: true})
		}, "lvchange --zero y vg-b/tp0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, worldOptions{})
			if err := tt.breakIt(w.machine); err != nil {
				t.Fatal(err)
			}
			p := w.start(t)
			_, err := p.controller.CreateVolume(t.Context(), createReq("pvc-1", tt.pool, 8*mib))
			wantCode(t, "CreateVolume", err, codes.ResourceExhausted)
			if !strings.Contains(status.Convert(err).Message(), tt.says) {
				t.Errorf("message %q does not say %q", status.Convert(err).Message(), tt.says)
			}
			resp, err := p.controller.GetCapacity(t.Context(), &csi.GetCapacityRequest{Parameters: map[string]string{"pool": tt.pool}})
			if err != nil || resp.GetMaximumVolumeSize().GetValue() != 0 {
				t.Errorf("GetCapacity: %v, %v; want 0", resp, err)
			}
		})
	}
}

func TestCreateVolume_ThinPoolAfterReboot(t *testing.T) {
	w := newWorld(t, worldOptions{})
	if err := w.machine.Reboot(); err != nil {
		t.Fatal(err)
	}
	mustCreate(t, w.start(t), createReq("pvc-1", "thin", 8*mib))
}

func TestCreateVolume_ThinPoolOfAnotherType(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.setPool("thin", func(p *poolconfig.Pool) { p.ThinPool = "not-a-pool" })
	p := w.start(t)
	_, err := p.lvm.Create(t.Context(), lvm.CreateRequest{Ref: lvm.Ref{VolumeGroup: "vg-b", Name: "not-a-pool"}, SegmentType: lvm.SegLinear, SizeBytes: 8 * mib})
	if err != nil {
		t.Fatal(err)
	}
	before := w.look(t)
	_, err = p.controller.CreateVolume(t.Context(), createReq("pvc-1", "thin", 8*mib))
	wantCode(t, "CreateVolume", err, codes.ResourceExhausted)
	if diff := cmp.Diff(before, w.look(t)); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
}

func TestCreateVolume_LVMRefuses(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want codes.Code
	}{
		{lvm.ErrNoSpace, codes.ResourceExhausted},
		{lvm.ErrThinPoolFull, codes.ResourceExhausted},
		{lvm.ErrReport, codes.Unavailable},
		{lvm.ErrUnavailable, codes.Unavailable},
		{lvm.ErrFailed, codes.Internal},
	} {
		t.Run(tt.err.Error(), func(t *testing.T) {
			w := newWorld(t, worldOptions{})
			p := w.start(t)
			p.lvm.SetHook(func(_ context.Context, c lvmfake.Call) error {
				if c.Op == lvmfake.OpCreate {
					return fmt.Errorf("hook: %w", tt.err)
				}
				return nil
			})
			_, err := p.controller.CreateVolume(t.Context(), createReq("pvc-1", "thick", 8*mib))
			wantCode(t, "CreateVolume", err, tt.want)
			if errors.Is(err, tt.err) {
				t.Error("an error of Go came through gRPC")
			}
		})
	}
}
