package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/csi-local/csi-local/test/nodeproc"
	"github.com/csi-local/csi-local/test/screen"
)

// volume is a claim and what became of it.
type volume struct {
	name     string // as csi-provisioner would make it, from the claim's UID
	pool     string
	fsType   string // empty for a raw block volume
	required int64  // bytes
	id       string
	bytes    int64 // true size
	context  map[string]string
	written  [sha256.Size]byte // of what the pod wrote
}

func (v *volume) block() bool { return v.fsType == "" }

func (v *volume) capability() *csi.VolumeCapability {
	c := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{
		Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER}}
	if v.block() {
		c.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	} else {
		c.AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: v.fsType}}
	}
	return c
}

// stagingPath is where kubelet wants the volume staged.
func (n *node) stagingPath(v *volume) string {
	base := filepath.Join(n.driver.KubeletDir(), "plugins/kubernetes.io/csi")
	if v.block() {
		return filepath.Join(base, "volumeDevices/staging", v.name)
	}
	sum := sha256.Sum256([]byte(v.id))
	return filepath.Join(base, n.driverName, hex.EncodeToString(sum[:]), "globalmount")
}

// targetPath is where kubelet wants the volume published.
func (n *node) targetPath(v *volume) string {
	if v.block() {
		return filepath.Join(n.driver.KubeletDir(), "plugins/kubernetes.io/csi/volumeDevices/publish", v.name, n.pod)
	}
	return filepath.Join(n.driver.KubeletDir(), "pods", n.pod, "volumes/kubernetes.io~csi", v.name, "mount")
}

// createRequest is what csi-provisioner sends for a claim whose pod was placed here.
func (n *node) createRequest(v *volume) *csi.CreateVolumeRequest {
	here := []*csi.Topology{{Segments: map[string]string{n.driverName + "/node": nodeproc.NodeName}}}
	return &csi.CreateVolumeRequest{
		Name:                      v.name,
		CapacityRange:             &csi.CapacityRange{RequiredBytes: v.required},
		VolumeCapabilities:        []*csi.VolumeCapability{v.capability()},
		Parameters:                map[string]string{"pool": v.pool},
		AccessibilityRequirements: &csi.TopologyRequirement{Requisite: here, Preferred: here},
	}
}

// create makes the volume, and asks a second time as a caller that lost the answer would.
func (n *node) create(ctx context.Context, v *volume) error {
	answer, err := call(ctx, n, "CreateVolume", n.driver.Controller.CreateVolume, n.createRequest(v),
		func(r *csi.CreateVolumeResponse) string {
			return fmt.Sprintf("%s, %s", r.GetVolume().GetVolumeId(), screen.Mebibytes(r.GetVolume().GetCapacityBytes()))
		})
	if err != nil {
		return err
	}
	v.id, v.bytes, v.context = answer.GetVolume().GetVolumeId(), answer.GetVolume().GetCapacityBytes(), answer.GetVolume().GetVolumeContext()
	if v.bytes < v.required {
		return fmt.Errorf("%s has %d bytes, and %d were required", v.id, v.bytes, v.required)
	}
	again, err := call(ctx, n, "CreateVolume", n.driver.Controller.CreateVolume, n.createRequest(v),
		func(*csi.CreateVolumeResponse) string { return "asked again: the same answer" })
	if err != nil {
		return err
	}
	if again.GetVolume().GetVolumeId() != v.id || again.GetVolume().GetCapacityBytes() != v.bytes {
		return fmt.Errorf("the same call gave %v and then %v", answer, again)
	}
	return nil
}

// stage makes the staging folder, as kubelet does, and stages the volume.
func (n *node) stage(ctx context.Context, v *volume, what string) error {
	if err := os.MkdirAll(n.stagingPath(v), 0o750); err != nil {
		return err
	}
	_, err := call(ctx, n, "NodeStageVolume", n.driver.Node.NodeStageVolume, &csi.NodeStageVolumeRequest{
		VolumeId: v.id, StagingTargetPath: n.stagingPath(v), VolumeCapability: v.capability(), VolumeContext: v.context,
	}, func(*csi.NodeStageVolumeResponse) string { return v.id + what })
	return err
}

// publish makes the target's parent, as kubelet does, and publishes the volume.
func (n *node) publish(ctx context.Context, v *volume) error {
	if err := os.MkdirAll(filepath.Dir(n.targetPath(v)), 0o750); err != nil {
		return err
	}
	_, err := call(ctx, n, "NodePublishVolume", n.driver.Node.NodePublishVolume, &csi.NodePublishVolumeRequest{
		VolumeId: v.id, StagingTargetPath: n.stagingPath(v), TargetPath: n.targetPath(v),
		VolumeCapability: v.capability(), VolumeContext: v.context,
	}, func(*csi.NodePublishVolumeResponse) string { return v.id })
	return err
}

func (n *node) unpublish(ctx context.Context, v *volume) error {
	_, err := call(ctx, n, "NodeUnpublishVolume", n.driver.Node.NodeUnpublishVolume,
		&csi.NodeUnpublishVolumeRequest{VolumeId: v.id, TargetPath: n.targetPath(v)},
		func(*csi.NodeUnpublishVolumeResponse) string { return v.id })
	if err != nil {
		return err
	}
	return mustBeGone(n.targetPath(v))
}

func (n *node) unstage(ctx context.Context, v *volume) error {
	_, err := call(ctx, n, "NodeUnstageVolume", n.driver.Node.NodeUnstageVolume,
		&csi.NodeUnstageVolumeRequest{VolumeId: v.id, StagingTargetPath: n.stagingPath(v)},
		func(*csi.NodeUnstageVolumeResponse) string { return v.id })
	if err != nil {
		return err
	}
	return os.RemoveAll(n.stagingPath(v)) // kubelet removes what it made
}

func (n *node) remove(ctx context.Context, v *volume) error {
	_, err := call(ctx, n, "DeleteVolume", n.driver.Controller.DeleteVolume, &csi.DeleteVolumeRequest{VolumeId: v.id},
		func(*csi.DeleteVolumeResponse) string { return fmt.Sprintf("%s, %s", v.id, screen.Mebibytes(v.bytes)) })
	return err
}

func mustBeGone(path string) error {
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		return fmt.Errorf("%s is still there (%v)", path, err)
	}
	return nil
}
