package driver

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/klog/v2"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/lvm"
)

// CreateVolume makes a volume with one LVM command and touches no device: what
// the extents held before is cleared when the volume is staged first.
func (s *controllerServer) CreateVolume(ctx context.Context, req *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	r, err := s.parseCreate(req)
	if err != nil {
		return nil, err
	}
	var v volume
	err = s.operations.run(ctx, lockKey(r.ref), opCreation, func(waitCtx, _ context.Context) error {
		made, err := s.findOrCreate(waitCtx, r)
		if err == nil {
			made, err = s.takeOver(waitCtx, made)
		}
		v = made // read only after run has said that the effect ended well
		return err
	})
	var busy *busyError
	if errors.As(err, &busy) && busy.running.kind.isUse() {
		v, err = s.findInUse(ctx, r, busy)
	}
	if err != nil {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId:           v.ID(),
		CapacityBytes:      v.SizeBytes,
		VolumeContext:      r.volumeContext(v.SizeBytes),
		AccessibleTopology: []*csi.Topology{s.topology()},
	}}, nil
}

// findInUse answers for a volume that is busy with being used. csi-provisioner asks once
// more when its informers are behind, and kubelet may be staging the volume by then: its
// claim would get the warning that provisioning failed.
func (d *Driver) findInUse(ctx context.Context, r createRequest, busy *busyError) (volume, error) {
	inv, err := d.inventory(ctx)
	if err != nil {
		return volume{}, err
	}
	v, found, err := r.find(inv)
	if err == nil && (!found || v.isOrphan()) {
		return volume{}, busy
	}
	return v, err
}

// findOrCreate believes the last known state. If that is behind, LVM says that
// the volume exists, and the state is read again.
func (d *Driver) findOrCreate(ctx context.Context, r createRequest) (volume, error) {
	inv, err := d.inventory(ctx)
	if err != nil {
		return volume{}, err
	}
	if v, found, err := r.find(inv); found || err != nil {
		return v, err
	}
	v, err := d.create(ctx, inv, r)
	if !errors.Is(err, lvm.ErrExists) {
		return v, err
	}
	if inv, err = d.freshInventory(ctx); err != nil {
		return volume{}, err
	}
	v, found, err := r.find(inv)
	if err == nil && !found {
		err = fmt.Errorf("%w: %s: LVM says that it exists and does not list it", errNotReady, r.ref)
	}
	return v, err
}

// find looks for the volume of an earlier call. Somebody else's volume under
// our name is left alone, whatever it looks like.
func (r createRequest) find(inv *inventory) (v volume, found bool, err error) {
	for _, v := range inv.named(r.csiName, r.podUID != "") {
		return v, true, r.checkExisting(v)
	}
	if err, bad := inv.unreadable[r.ref]; bad {
		return volume{}, false, err
	}
	if other, taken := inv.state.LogicalVolume(r.ref); taken {
		return volume{}, false, nameTakenByOther.errorf(other.Ref(), r.csiName)
	}
	return volume{}, false, nil
}

func (d *Driver) create(ctx context.Context, inv *inventory, r createRequest) (volume, error) {
	if err := d.activatePool(ctx, inv, r.pool); err != nil {
		return volume{}, err
	}
	group, ok := inv.state.VolumeGroup(r.ref.VolumeGroup)
	if !ok {
		_, err := inv.usage(r.pool) // says why
		return volume{}, err
	}
	size, err := capacity.VolumeSize(r.shape, r.fsType, r.requiredBytes, r.limitBytes, group.ExtentSizeBytes)
	if err != nil {
		return volume{}, err
	}
	footprint, err := capacity.Footprint(r.shape, size, group.ExtentSizeBytes)
	if err != nil {
		return volume{}, err
	}
	release, err := d.admit(ctx, r.pool, r.ref, size, footprint)
	if err != nil {
		return volume{}, err
	}
	defer release()
	lv, err := d.volumes.Create(ctx, r.lvmRequest(d.driverName, size))
	if err != nil {
		return volume{}, fmt.Errorf("pool %s on node %s: %w", r.pool.Name, d.nodeName, err)
	}
	v, ours, err := decodeVolume(d.driverName, lv)
	if err == nil && !ours {
		err = fmt.Errorf("%s was made without its tags: %w", lv.Ref(), errTags)
	}
	if err == nil {
		klog.FromContext(ctx).V(2).Info("Created volume", "logicalVolume", lv.Ref().String(), "pool", v.Pool, "sizeBytes", v.SizeBytes)
	}
	return v, err
}
