package nodeproc

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// Spec is what a claim and its class ask for.
type Spec struct {
	Name      string
	SizeBytes int64
	// FSType is the file system; empty asks for a raw block volume.
	FSType string
	// Parameters are the class's; "pool" is among them.
	Parameters map[string]string
}

// Volume is a volume as provisioner and kubelet know it.
type Volume struct {
	Spec
	ID string
	// CapacityBytes is the true size, which CreateVolume or NodeExpandVolume answered.
	CapacityBytes int64
	Context       map[string]string
}

// Capability is the volume capability that goes with the volume in every call.
func (s Spec) Capability() *csi.VolumeCapability {
	capability := &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
	if s.FSType == "" {
		capability.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	} else {
		capability.AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: s.FSType}}
	}
	return capability
}

// Create calls CreateVolume.
func (n *Node) Create(ctx context.Context, spec Spec) (Volume, error) {
	answer, err := n.Controller.CreateVolume(ctx, &csi.CreateVolumeRequest{
		Name:               spec.Name,
		CapacityRange:      &csi.CapacityRange{RequiredBytes: spec.SizeBytes},
		VolumeCapabilities: []*csi.VolumeCapability{spec.Capability()},
		Parameters:         spec.Parameters,
	})
	if err != nil {
		return Volume{}, err
	}
	v := answer.GetVolume()
	return Volume{Spec: spec, ID: v.GetVolumeId(), CapacityBytes: v.GetCapacityBytes(), Context: v.GetVolumeContext()}, nil
}

// Delete calls DeleteVolume.
func (n *Node) Delete(ctx context.Context, id string) error {
	_, err := n.Controller.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id})
	return err
}

// StagingPath is where kubelet would stage the volume.
func (n *Node) StagingPath(id string) string {
	return filepath.Join(n.KubeletDir(), "plugins", "kubernetes.io", "csi", "csi-local", fileName(id), "globalmount")
}

// TargetPath is where kubelet would publish the volume for the pod.
func (n *Node) TargetPath(v Volume, pod string) string {
	if v.FSType == "" {
		return filepath.Join(n.KubeletDir(), "plugins", "kubernetes.io", "csi", "volumeDevices", "publish", fileName(v.ID), pod)
	}
	return filepath.Join(n.KubeletDir(), "pods", pod, "volumes", "kubernetes.io~csi", fileName(v.ID), "mount")
}

func fileName(id string) string { return strings.ReplaceAll(id, "/", "_") }

// Stage makes the staging folder, as kubelet does, and calls NodeStageVolume.
func (n *Node) Stage(ctx context.Context, v Volume) error {
	if err := os.MkdirAll(n.StagingPath(v.ID), 0o750); err != nil {
		return err
	}
	_, err := n.Node.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
		VolumeId: v.ID, StagingTargetPath: n.StagingPath(v.ID),
		VolumeCapability: v.Capability(), VolumeContext: v.Context,
	})
	return err
}

// Unstage calls NodeUnstageVolume.
func (n *Node) Unstage(ctx context.Context, v Volume) error {
	_, err := n.Node.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: v.ID, StagingTargetPath: n.StagingPath(v.ID)})
	return err
}

// Publish makes the folder above the target, as kubelet does, and calls
// NodePublishVolume. It returns the target path.
func (n *Node) Publish(ctx context.Context, v Volume, pod string, readOnly bool) (string, error) {
	target := n.TargetPath(v, pod)
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return "", err
	}
	_, err := n.Node.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{
		VolumeId: v.ID, StagingTargetPath: n.StagingPath(v.ID), TargetPath: target,
		VolumeCapability: v.Capability(), VolumeContext: v.Context, Readonly: readOnly,
	})
	return target, err
}

// Unpublish calls NodeUnpublishVolume.
func (n *Node) Unpublish(ctx context.Context, v Volume, pod string) error {
	_, err := n.Node.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: v.ID, TargetPath: n.TargetPath(v, pod)})
	return err
}

// Expand calls NodeExpandVolume for a published (pod given) or only staged
// (pod empty) volume and notes the new size in v.
func (n *Node) Expand(ctx context.Context, v *Volume, pod string, sizeBytes int64) error {
	path := n.StagingPath(v.ID)
	if pod != "" {
		path = n.TargetPath(*v, pod)
	}
	answer, err := n.Node.NodeExpandVolume(ctx, &csi.NodeExpandVolumeRequest{
		VolumeId: v.ID, VolumePath: path, StagingTargetPath: n.StagingPath(v.ID),
		CapacityRange: &csi.CapacityRange{RequiredBytes: sizeBytes}, VolumeCapability: v.Capability(),
	})
	if err != nil {
		return err
	}
	v.CapacityBytes = answer.GetCapacityBytes()
	return nil
}

// List calls ListVolumes until all pages are read.
func (n *Node) List(ctx context.Context) ([]*csi.Volume, error) {
	var volumes []*csi.Volume
	token := ""
	for {
		page, err := n.Controller.ListVolumes(ctx, &csi.ListVolumesRequest{StartingToken: token})
		if err != nil {
			return nil, err
		}
		for _, entry := range page.GetEntries() {
			volumes = append(volumes, entry.GetVolume())
		}
		if token = page.GetNextToken(); token == "" {
			return volumes, nil
		}
	}
}
