package driver

import (
	"context"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// NodeGetVolumeStats tells how full the volume at the path is. It starts no
// process. Only when the mount table says that the path is this volume's are
// numbers read from it; anything else would be the numbers of the host's disk.
func (s *nodeServer) NodeGetVolumeStats(ctx context.Context, req *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	id, path := req.GetVolumeId(), req.GetVolumePath()
	if id == "" {
		return nil, volumeIDMissing.errorf()
	}
	if path == "" {
		return nil, pathMissing.errorf("volume_path")
	}
	v, err := s.lookupKnown(ctx, id)
	if err != nil {
		return nil, err
	}
	m, err := s.findForStats(v, path)
	if err != nil {
		return nil, err
	}
	if m.Block {
		return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
			{Unit: csi.VolumeUsage_BYTES, Total: v.SizeBytes},
		}}, nil
	}
	usage, err := s.usageAt(ctx, v, m)
	if err != nil {
		return nil, err
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: usage.toCSI()}, nil
}

// lookupKnown is lookup in the last known state alone: the callers come often,
// and must not start a process each time.
func (d *Driver) lookupKnown(ctx context.Context, id string) (volume, error) {
	inv, err := d.inventory(ctx)
	if err != nil {
		return volume{}, err
	}
	if isInlineHandle(id) {
		return inv.lookupInline(id)
	}
	ref, err := parseVolumeID(id)
	if err != nil {
		return volume{}, err
	}
	return inv.lookupRef(ref)
}

// findForStats returns the volume's mount at the path. For block volumes the
// staging folder, in which the device is, will do as well.
func (d *Driver) findForStats(v volume, path string) (Mount, error) {
	if checkPathText("volume_path", path) != nil {
		return Mount{}, nothingAtPath.errorf(v.ID(), path)
	}
	table, err := d.mountTable()
	if err != nil {
		return Mount{}, err
	}
	for _, candidate := range []string{path, filepath.Join(path, stagedDeviceName)} {
		if m, ok := d.mountOf(table, v, candidate); ok {
			return m, nil
		}
	}
	return Mount{}, nothingAtPath.errorf(v.ID(), path)
}

// usageAt reads how full the file system at a mount is. It looks at the mount
// table again after that: if the volume was unmounted in between, the numbers
// are those of the host's disk.
func (d *Driver) usageAt(ctx context.Context, v volume, m Mount) (FilesystemUsage, error) {
	usage, err := d.usages.statfs(ctx, d.mounter, m.Path)
	table, tableErr := d.mountTable()
	if tableErr != nil {
		return FilesystemUsage{}, tableErr
	}
	if now, mounted := table.at(m.Path); !mounted || now.Device != m.Device {
		return FilesystemUsage{}, nothingAtPath.errorf(v.ID(), m.Path)
	}
	return usage, err
}

func (u FilesystemUsage) toCSI() []*csi.VolumeUsage {
	usage := []*csi.VolumeUsage{{
		Unit: csi.VolumeUsage_BYTES, Total: u.TotalBytes, Available: u.AvailableBytes, Used: u.UsedBytes,
	}}
	if u.TotalInodes > 0 {
		usage = append(usage, &csi.VolumeUsage{
			Unit: csi.VolumeUsage_INODES, Total: u.TotalInodes, Available: u.AvailableInodes, Used: u.UsedInodes,
		})
	}
	return usage
}
