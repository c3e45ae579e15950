package driver

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/klog/v2"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/lvm"
)

// Keys that kubelet adds to the volume context of a CSI inline volume, the
// second one if CSIDriver.spec.podInfoOnMount is set.
const (
	contextEphemeral = "csi.storage.k8s.io/ephemeral"
	contextPodUID    = "csi.storage.k8s.io/pod.uid"
)

// An inline volume lives as long as its pod. There is no PersistentVolume and
// no staging: NodePublishVolume makes, formats and mounts it, and
// NodeUnpublishVolume deletes it. Its logical volume is found by the handle in
// its tags, so a call that was cut off anywhere goes on from what is there.

// isInlineRequest tells whether kubelet wants an inline volume.
func isInlineRequest(use volumeUse) bool { return use.context[contextEphemeral] == "true" }

func (d *Driver) publishInline(ctx context.Context, use volumeUse, target string) error {
	r, err := d.parseInline(use, target)
	if err != nil {
		return err
	}
	return d.operations.run(ctx, use.key, opPublication, func(waitCtx, runCtx context.Context) error {
		v, err := d.findOrCreate(waitCtx, r)
		if err != nil {
			return err
		}
		return d.mountInline(waitCtx, runCtx, v, use, target)
	})
}

// parseInline checks all of a request that does not depend on LVM's state.
func (d *Driver) parseInline(use volumeUse, target string) (createRequest, error) {
	if !isInlineHandle(use.id) {
		return createRequest{}, inlineHandleInvalid.errorf(use.id)
	}
	if use.block {
		return createRequest{}, inlineBlock.errorf()
	}
	lvName, err := volumeNameFor(use.id)
	if err != nil {
		return createRequest{}, err
	}
	// The bound on the size is the pool's, and the pool is in the parameters.
	const boundUnknown = -1
	parameters, err := capacity.ParseInlineParameters(use.context, boundUnknown)
	if err != nil {
		return createRequest{}, err
	}
	pool, err := d.pool(parameters.Pool)
	if err != nil {
		return createRequest{}, err
	}
	if parameters, err = capacity.ParseInlineParameters(use.context, pool.MaxInlineSizeBytes); err != nil {
		return createRequest{}, err
	}
	if err := parameters.Validate(pool.Type, pool.Wipe); err != nil {
		return createRequest{}, err
	}
	podUID, err := d.podUIDOf(use, target)
	if err != nil {
		return createRequest{}, err
	}
	access := access{fsType: capacity.Filesystem(use.fsType)}
	fsType := filesystemFor(access, parameters.ClassParameters, pool)
	return createRequest{
		csiName: use.id, podUID: podUID,
		ref:           lvm.Ref{VolumeGroup: pool.VolumeGroup, Name: lvName},
		pool:          pool,
		shape:         parameters.ShapeIn(pool.Type),
		access:        access,
		fsType:        fsType,
		wipe:          parameters.WipeIn(pool.Wipe),
		requiredBytes: parameters.SizeBytes,
	}, d.checkTools(fsType)
}

// podUIDOf returns the pod that the volume lives with: as kubelet says, or as
// the target path says.
func (d *Driver) podUIDOf(use volumeUse, target string) (string, error) {
	uid := use.context[contextPodUID]
	if uid == "" {
		pods := filepath.Join(d.kubeletDir, "pods")
		if real, err := filepath.EvalSymlinks(pods); err == nil {
			pods = real
		}
		if rest, ok := strings.CutPrefix(target, pods+"/"); ok {
			uid, _, _ = strings.Cut(rest, "/")
		}
	}
	if uid == "" || uid == "." || uid == ".." || strings.Contains(uid, "/") {
		return "", inlineWithoutPod.errorf(contextPodUID)
	}
	return uid, nil
}

// mountInline formats the volume if it is new and mounts it at the target.
func (d *Driver) mountInline(waitCtx, runCtx context.Context, v volume, use volumeUse, target string) error {
	dev, err := d.openDevice(waitCtx, v)
	if err != nil {
		return err
	}
	table, err := d.mountTable()
	if err != nil {
		return err
	}
	if m, mounted := table.at(target); mounted {
		if m.Device != dev.number || m.Block {
			return pathOccupied.errorf(target, m.Source, v.ID())
		}
		return checkSame(v, m, use, use.options, target)
	}
	for _, m := range table.of(dev.number) {
		if d.isTarget(m.Path) {
			return publishedElsewhere.errorf(v.ID(), m.Path)
		}
	}
	if v, err = d.prepare(waitCtx, runCtx, v, dev, use); err != nil {
		return err
	}
	if err := makeTarget(target, false); err != nil {
		return fmt.Errorf("target of inline volume %s: %w", v.ID(), err)
	}
	if err := d.mountFilesystem(runCtx, v, dev, use, target); err != nil {
		return errors.Join(err, d.undoTarget(runCtx, target))
	}
	return nil
}

// deleteInline deletes the inline volume of a handle; it is fine if there is
// none. Where its volume group cannot be read it is left to the sweep: the pod
// has to come to its end even if the disk never comes back.
func (d *Driver) deleteInline(ctx context.Context, handle string) error {
	return d.operations.run(ctx, operationKeyOf(handle), opDeletion, func(waitCtx, runCtx context.Context) error {
		v, err := d.lookup(waitCtx, handle)
		if err == nil {
			err = d.remove(waitCtx, runCtx, v)
		}
		switch {
		case errors.Is(err, errNotFound), errors.Is(err, lvm.ErrNotFound):
			return nil
		case isGroupProblem(err):
			klog.FromContext(ctx).Error(err, "Inline volume will be deleted when its volume group can be used again")
			return nil
		}
		return err
	})
}
