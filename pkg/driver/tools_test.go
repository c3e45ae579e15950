package driver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestMounter_MissingTools(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	for _, program := range []string{"blkid", "mount", "mkfs.ext4", "e2fsck", "resize2fs", "mkfs.xfs"} {
		if err := os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for fsType, want := range map[string][]string{"ext4": nil, "xfs": {"xfs_growfs"}, "btrfs": {"mkfs.btrfs", "btrfs"}} {
		if diff := cmp.Diff(want, NewMounter().MissingTools(fsType)); diff != "" {
			t.Errorf("%s: %s", fsType, diff)
		}
	}
}

// Where a program is missing, only what needs it is refused, and before there is a
// volume and a pod that waits for it (piraeusdatastore/piraeus#179).
func TestTools_OnlyTheFileSystemThatLacksThemIsRefused(t *testing.T) {
	w := newWorld(t, worldOptions{})
	client := w.client(t)
	d := w.driver(t, client)
	d.mounter = noMounter{missing: map[string][]string{"xfs": {"mkfs.xfs", "xfs_growfs"}}}
	p := serve(t, d, client)
	for fsType, want := range map[string]codes.Code{"": codes.OK, "ext4": codes.OK, "xfs": codes.ResourceExhausted, "btrfs": codes.OK} {
		req := createReq("pvc-"+fsType, "thick", 8*mib)
		req.VolumeCapabilities = []*csi.VolumeCapability{mountCapability(fsType)}
		_, err := p.controller.CreateVolume(t.Context(), req)
		wantCode(t, "CreateVolume "+fsType, err, want)
		if msg := status.Convert(err).Message(); want != codes.OK && !strings.Contains(msg, "mkfs.xfs, xfs_growfs not found") {
			t.Errorf("message %q does not name the programs", msg)
		}
		room, err := p.controller.GetCapacity(t.Context(), &csi.GetCapacityRequest{
			Parameters: map[string]string{"pool": "thick"}, VolumeCapabilities: req.GetVolumeCapabilities(),
		})
		if err != nil || (room.GetMaximumVolumeSize().GetValue() > 0) != (want == codes.OK) {
			t.Errorf("GetCapacity %s: %v, %v", fsType, room, err)
		}
	}
	mustCreate(t, p, createReq("block", "thick", 8*mib))
}
