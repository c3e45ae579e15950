package driver

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
)

// What is advertised works, and what is not says so.
func TestControllerGetCapabilities_AreExactlyWhatWorks(t *testing.T) {
	p := newWorld(t, worldOptions{}).start(t)
	resp, err := p.controller.ControllerGetCapabilities(t.Context(), &csi.ControllerGetCapabilitiesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range resp.GetCapabilities() {
		got = append(got, c.GetRpc().GetType().String())
	}
	slices.Sort(got)
	want := []string{"CREATE_DELETE_VOLUME", "GET_CAPACITY", "GET_VOLUME", "LIST_VOLUMES", "SINGLE_NODE_MULTI_WRITER"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"ControllerPublishVolume": func() error {
			_, err := p.controller.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{})
			return err
		},
		"ControllerExpandVolume": func() error {
			_, err := p.controller.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{})
			return err
		},
		"ControllerModifyVolume": func() error {
			_, err := p.controller.ControllerModifyVolume(ctx, &csi.ControllerModifyVolumeRequest{})
			return err
		},
		"CreateSnapshot": func() error {
			_, err := p.controller.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{})
			return err
		},
		"ListSnapshots": func() error {
			_, err := p.controller.ListSnapshots(ctx, &csi.ListSnapshotsRequest{})
			return err
		},
	} {
		wantCode(t, name, call(), codes.Unimplemented)
	}
}

func TestValidateVolumeCapabilities(t *testing.T) {
	w := newWorld(t, worldOptions{})
	p := w.start(t)
	ids := map[string]string{}
	for name, fsType := range map[string]string{"new": "", "block": "", "ext4": "ext4"} {
		ids[name] = mustCreate(t, p, createReq(name, "thick", 8*mib)).GetVolumeId()
		if name != "new" {
			markUsed(t, p, ids[name], fsType)
		}
	}
	shared := mountCapability("ext4")
	shared.AccessMode.Mode = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	for _, tt := range []struct {
		name, id  string
		caps      *csi.VolumeCapability
		confirmed bool
		says      string
	}{
		{"new as block", ids["new"], blockCapability(), true, ""},
		{"new as file system", ids["new"], mountCapability("xfs"), true, ""},
		{"block as block", ids["block"], blockCapability(), true, ""},
		{"block as file system", ids["block"], mountCapability("ext4"), false, "never formatted"},
		{"ext4 as ext4", ids["ext4"], mountCapability("ext4"), true, ""},
		{"ext4 as whatever it is", ids["ext4"], mountCapability(""), true, ""},
		{"ext4 as xfs", ids["ext4"], mountCapability("xfs"), false, "holds ext4"},
		{"ext4 as block", ids["ext4"], blockCapability(), false, "volumeMode Filesystem"},
		{"shared", ids["ext4"], shared, false, "ReadWriteOnce"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := &csi.ValidateVolumeCapabilitiesRequest{
				VolumeId: tt.id, VolumeCapabilities: []*csi.VolumeCapability{tt.caps},
				VolumeContext: map[string]string{"pool": "thick"}, Parameters: map[string]string{"pool": "thick"},
			}
			resp, err := p.controller.ValidateVolumeCapabilities(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if (resp.GetConfirmed() != nil) != tt.confirmed || !strings.Contains(resp.GetMessage(), tt.says) {
				t.Errorf("confirmed %v, message %q; want %v, %q", resp.GetConfirmed(), resp.GetMessage(), tt.confirmed, tt.says)
			}
			if tt.confirmed {
				want := &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
					VolumeContext: req.GetVolumeContext(), VolumeCapabilities: req.GetVolumeCapabilities(), Parameters: req.GetParameters(),
				}
				if diff := cmp.Diff(want, resp.GetConfirmed(), protocmp.Transform()); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			}
		})
	}
	for id, want := range map[string]codes.Code{"": codes.InvalidArgument, "vg-a/none": codes.NotFound, "something": codes.NotFound} {
		_, err := p.controller.ValidateVolumeCapabilities(t.Context(), &csi.ValidateVolumeCapabilitiesRequest{
			VolumeId: id, VolumeCapabilities: []*csi.VolumeCapability{blockCapability()},
		})
		wantCode(t, "ID "+id, err, want)
	}
	_, err := p.controller.ValidateVolumeCapabilities(t.Context(), &csi.ValidateVolumeCapabilitiesRequest{VolumeId: ids["new"]})
	wantCode(t, "no capabilities", err, codes.InvalidArgument)
}

// Not being in the last known state does not mean not being there.
func TestLookup_AsksLVMBeforeItSaysNotFound(t *testing.T) {
	w := newWorld(t, worldOptions{})
	p := w.start(t)
	other := w.start(t) // another process, for example the one before
	id := mustCreate(t, other, createReq("v", "thick", 8*mib)).GetVolumeId()
	if _, err := p.controller.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: id}); err != nil {
		t.Errorf("ControllerGetVolume: %v", err)
	}
	id = mustCreate(t, other, createReq("w", "thick", 8*mib)).GetVolumeId()
	mustDelete(t, p, id)
	if _, there := w.look(t)["vg-a"].Volumes["w"]; there {
		t.Error("DeleteVolume said OK and left the volume")
	}
	// The fresh report may fail, and then nothing is known.
	p.lvm.SetHook(func(_ context.Context, c lvmfake.Call) error {
		if c.Op == lvmfake.OpRefresh {
			return lvm.ErrReport
		}
		return nil
	})
	wantCode(t, "DeleteVolume without a report", deleteVolume(t, p, "vg-a/none"), codes.Unavailable)
}

func TestControllerGetVolume(t *testing.T) {
	w := newWorld(t, worldOptions{})
	p := w.start(t)
	id := mustCreate(t, p, createReq("v", "thick", 8*mib)).GetVolumeId()
	resp, err := p.controller.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: id})
	if err != nil || resp.GetVolume().GetVolumeId() != id || resp.GetVolume().GetCapacityBytes() != 8*mib || resp.GetStatus() == nil {
		t.Errorf("ControllerGetVolume: %v, %v", resp, err)
	}
	_, err = p.controller.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: "vg-a/none"})
	wantCode(t, "unknown", err, codes.NotFound)
	_, err = p.controller.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{})
	wantCode(t, "no ID", err, codes.InvalidArgument)
}

func TestIdentity(t *testing.T) {
	w := newWorld(t, worldOptions{})
	p := w.start(t)
	info, err := p.identity.GetPluginInfo(t.Context(), &csi.GetPluginInfoRequest{})
	if err != nil || info.GetName() != testDriver || info.GetVendorVersion() != "v0.0.0-test" {
		t.Errorf("GetPluginInfo: %v, %v", info, err)
	}
	caps, err := p.identity.GetPluginCapabilities(t.Context(), &csi.GetPluginCapabilitiesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range caps.GetCapabilities() {
		if s := c.GetService(); s != nil {
			got = append(got, s.GetType().String())
		} else {
			got = append(got, "expansion "+c.GetVolumeExpansion().GetType().String())
		}
	}
	if diff := cmp.Diff([]string{"CONTROLLER_SERVICE", "VOLUME_ACCESSIBILITY_CONSTRAINTS", "expansion ONLINE"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestProbe_IsReadyWhileLVMAnswers(t *testing.T) {
	w := newWorld(t, worldOptions{})
	p := w.start(t)
	if resp, err := p.identity.Probe(t.Context(), &csi.ProbeRequest{}); err != nil || !resp.GetReady().GetValue() {
		t.Errorf("Probe: %v, %v", resp, err)
	}
	// A broken pool is no reason to restart the others' driver.
	if err := w.machine.SetDiskMissing("vg-a", "/dev/disk2", true); err != nil {
		t.Fatal(err)
	}
	if _, err := p.lvm.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if resp, err := p.identity.Probe(t.Context(), &csi.ProbeRequest{}); err != nil || !resp.GetReady().GetValue() {
		t.Errorf("Probe with a broken pool: %v, %v", resp, err)
	}
	if err := p.lvm.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := p.identity.Probe(t.Context(), &csi.ProbeRequest{})
	wantCode(t, "Probe without LVM", err, codes.Unavailable)
	if msg := status.Convert(err).Message(); !strings.Contains(msg, "LVM does not answer") {
		t.Errorf("message %q", msg)
	}
}
