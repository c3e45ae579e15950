package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// publication is a checked request to publish a volume.
type publication struct {
	volumeUse
	// staging and target are resolved paths; source is what is bound to target:
	// the staging path, or the device node in it.
	staging, source, target string
}

// NodePublishVolume makes a staged volume appear at the target path, or makes
// an inline volume and mounts it there.
func (s *nodeServer) NodePublishVolume(ctx context.Context, req *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	use, err := parseUse(req.GetVolumeId(), req.GetVolumeCapability(), req.GetVolumeContext(), req.GetReadonly())
	if err != nil {
		return nil, err
	}
	target, err := s.nodePath("target_path", req.GetTargetPath())
	if err != nil {
		return nil, err
	}
	if isInlineRequest(use) {
		err = s.publishInline(ctx, use, target)
	} else {
		err = s.publishStaged(ctx, use, req.GetStagingTargetPath(), target)
	}
	if err != nil {
		return nil, err
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func (d *Driver) publishStaged(ctx context.Context, use volumeUse, stagingPath, target string) error {
	if stagingPath == "" {
		return stagingPathMissing.errorf()
	}
	if _, err := parseVolumeID(use.id); err != nil {
		return err
	}
	staging, err := d.nodePath("staging_target_path", stagingPath)
	if err != nil {
		return err
	}
	p := publication{volumeUse: use, staging: staging, source: staging, target: target}
	if use.block {
		p.source = filepath.Join(staging, stagedDeviceName)
	}
	return d.operations.run(ctx, use.key, opPublication, func(waitCtx, runCtx context.Context) error {
		return d.publish(waitCtx, runCtx, p)
	})
}

// publish binds what is staged to the target. It needs no LVM command: that the
// volume is staged, and where, is in the mount table alone.
func (d *Driver) publish(waitCtx, runCtx context.Context, p publication) error {
	v, err := d.lookup(waitCtx, p.id)
	if err != nil {
		return err
	}
	if err := checkAlive(v); err != nil {
		return err
	}
	table, err := d.mountTable()
	if err != nil {
		return err
	}
	staged, err := d.findStaged(table, v, p)
	if err != nil {
		return err
	}
	options := p.boundOptions(staged)
	if m, mounted := table.at(p.target); mounted {
		if m.Device != staged.Device || m.Block != p.block {
			return pathOccupied.errorf(p.target, m.Source, v.ID())
		}
		return checkSame(v, m, p.volumeUse, options, p.target)
	}
	if !p.manyTargets {
		if other, found := d.otherTarget(table, staged.Device, p); found {
			return publishedElsewhere.errorf(v.ID(), other)
		}
	}
	return d.bindTarget(runCtx, v, p, options, staged.Device)
}

// findStaged returns the mount at the staging path. Whatever else is there, a
// folder with stray files after a reboot for example, is never given to a pod.
func (d *Driver) findStaged(table mountTable, v volume, p publication) (Mount, error) {
	staged, ok := table.at(p.source)
	if number := numberOf(v); !ok || number == noDevice() || staged.Device != number || staged.Block != p.block {
		return Mount{}, notStaged.errorf(v.ID(), p.source)
	}
	if p.block {
		return staged, nil
	}
	if p.fsType != "" && p.fsType != staged.FSType {
		return Mount{}, holdsOtherFilesystem.errorf(v.ID(), staged.FSType, p.fsType)
	}
	if staged.failed() && !p.readOnly() {
		return Mount{}, filesystemFailed.errorf(v.ID(), p.source)
	}
	if staged.ReadOnly() && !p.readOnly() {
		return Mount{}, stagedReadOnly.errorf(v.ID(), p.source)
	}
	return staged, nil
}

// boundOptions are the per-mount options of the target: those of the request
// and those of the staged mount. What belongs to the file system was decided
// when it was staged.
func (p publication) boundOptions(staged Mount) mountOptions {
	if p.block {
		return p.options
	}
	options := p.options.perMount()
	for _, option := range staged.Options {
		if isPerMount(option) && option != "ro" {
			options = options.with(option)
		}
	}
	return options
}

// otherTarget finds a path other than p's at which the volume is published.
func (d *Driver) otherTarget(table mountTable, number DeviceNumber, p publication) (string, bool) {
	for _, m := range table.of(number) {
		if m.Path != p.target && m.Path != p.source && m.Path != p.staging && d.isTarget(m.Path) {
			return m.Path, true
		}
	}
	return "", false
}

// isTarget tells whether a mount at this path is a publication. Mounts
// elsewhere on the host are not (kubelet's folder may show up twice in the
// mount table, if it is a bind mount itself), nor are those that kubelet makes
// of what was published: of sub-paths and of block devices.
func (d *Driver) isTarget(path string) bool {
	kubelet := d.kubeletDir
	if real, err := filepath.EvalSymlinks(kubelet); err == nil {
		kubelet = real
	}
	if rest, ok := strings.CutPrefix(path, filepath.Join(kubelet, "plugins")+"/"); ok {
		return strings.Contains(rest, "/volumeDevices/publish/")
	}
	if rest, ok := strings.CutPrefix(path, filepath.Join(kubelet, "pods")+"/"); ok {
		return !slices.Contains(strings.Split(rest, "/"), "volume-subpaths")
	}
	return isBelowAny(path, d.extraPaths)
}

// bindTarget makes the target and binds the source to it. After an error
// neither is left.
func (d *Driver) bindTarget(ctx context.Context, v volume, p publication, options mountOptions, number DeviceNumber) error {
	if err := makeTarget(p.target, p.block); err != nil {
		return fmt.Errorf("target of volume %s: %w", v.ID(), err)
	}
	err := d.mounter.Bind(ctx, p.source, p.target, options)
	if err == nil {
		err = d.checkMounted(p.target, number)
	}
	if err == nil {
		return nil
	}
	return errors.Join(err, d.undoTarget(ctx, p.target))
}

// makeTarget makes what a publication is bound to: a file for a device node,
// else a folder. One that is there already will do.
func makeTarget(path string, block bool) error {
	if block {
		return makeFile(path)
	}
	const mode = 0o750
	if err := os.Mkdir(path, mode); !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%w: %s is no folder", errPrecondition, path)
	}
	return nil
}
