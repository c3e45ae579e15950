package drivertest

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// MountCap is the capability of a file system.
func MountCap(fsType string, mode csi.VolumeCapability_AccessMode_Mode, flags ...string) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fsType, MountFlags: flags}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
	}
}

// BlockCap is the capability of a raw block volume.
func BlockCap(mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
	}
}

// Service is a driver and the kubelet that calls it.
type Service interface {
	// Clients are those of the process that runs now.
	Clients() (csi.ControllerClient, csi.NodeClient)
	// Kubelet is kubelet's folder.
	Kubelet() string
}

// Volume is a volume with its paths, laid out as kubelet does. Its methods make the
// calls of provisioner and kubelet; they return the gRPC errors.
type Volume struct {
	Service Service
	ID      string
	Ref     lvm.Ref
	Cap     *csi.VolumeCapability
	Context map[string]string
	Staging string
	// Bytes is the size that CreateVolume answered.
	Bytes int64
}

// CreateVolume creates a volume and its staging folder.
func CreateVolume(ctx context.Context, s Service, name string, sizeBytes int64, c *csi.VolumeCapability, class map[string]string) (*Volume, error) {
	controller, _ := s.Clients()
	resp, err := controller.CreateVolume(ctx, &csi.CreateVolumeRequest{
		Name: name, Parameters: class, VolumeCapabilities: []*csi.VolumeCapability{c},
		CapacityRange: &csi.CapacityRange{RequiredBytes: sizeBytes},
	})
	if err != nil {
		return nil, err
	}
	id := resp.GetVolume().GetVolumeId()
	vg, lv, _ := strings.Cut(id, "/")
	v := &Volume{
		Service: s, ID: id, Ref: lvm.Ref{VolumeGroup: vg, Name: lv}, Cap: c, Bytes: resp.GetVolume().GetCapacityBytes(),
		Context: resp.GetVolume().GetVolumeContext(),
		Staging: filepath.Join(s.Kubelet(), "plugins/kubernetes.io/csi", name, "globalmount"),
	}
	return v, os.MkdirAll(v.Staging, 0o750)
}

// Target is the target path for a pod; its parent is made as kubelet does.
func (v *Volume) Target(pod string) string {
	path := filepath.Join(v.Service.Kubelet(), "pods", pod, "volumes/kubernetes.io~csi", v.Ref.Name, "mount")
	if v.Cap.GetBlock() != nil {
		path = filepath.Join(v.Service.Kubelet(), "plugins/kubernetes.io/csi/volumeDevices/publish", v.Ref.Name, pod)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		panic(err)
	}
	return path
}

func (v *Volume) node() csi.NodeClient {
	_, node := v.Service.Clients()
	return node
}

// Stage calls NodeStageVolume.
func (v *Volume) Stage(ctx context.Context) error { return v.StageWith(ctx, v.Cap) }

// StageWith is Stage with another capability.
func (v *Volume) StageWith(ctx context.Context, c *csi.VolumeCapability) error {
	_, err := v.node().NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
		VolumeId: v.ID, StagingTargetPath: v.Staging, VolumeCapability: c, VolumeContext: v.Context,
	})
	return err
}

// Unstage calls NodeUnstageVolume.
func (v *Volume) Unstage(ctx context.Context) error {
	_, err := v.node().NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: v.ID, StagingTargetPath: v.Staging})
	return err
}

// Publish calls NodePublishVolume.
func (v *Volume) Publish(ctx context.Context, pod string) error {
	return v.PublishWith(ctx, pod, v.Cap, false)
}

// PublishWith is Publish with another capability.
func (v *Volume) PublishWith(ctx context.Context, pod string, c *csi.VolumeCapability, readOnly bool) error {
	_, err := v.node().NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{
		VolumeId: v.ID, StagingTargetPath: v.Staging, TargetPath: v.Target(pod), VolumeCapability: c, Readonly: readOnly,
		VolumeContext: v.Context,
	})
	return err
}

// Unpublish calls NodeUnpublishVolume.
func (v *Volume) Unpublish(ctx context.Context, pod string) error {
	_, err := v.node().NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: v.ID, TargetPath: v.Target(pod)})
	return err
}

// Expand calls NodeExpandVolume and returns the size that it answers.
func (v *Volume) Expand(ctx context.Context, sizeBytes int64, path string) (int64, error) {
	resp, err := v.node().NodeExpandVolume(ctx, &csi.NodeExpandVolumeRequest{
		VolumeId: v.ID, VolumePath: path, StagingTargetPath: v.Staging, VolumeCapability: v.Cap,
		CapacityRange: &csi.CapacityRange{RequiredBytes: sizeBytes},
	})
	return resp.GetCapacityBytes(), err
}

// Remove calls DeleteVolume.
func (v *Volume) Remove(ctx context.Context) error {
	controller, _ := v.Service.Clients()
	_, err := controller.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: v.ID})
	return err
}
