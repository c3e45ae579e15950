package driver

import (
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// access is how a volume is to be used, from its capabilities.
type access struct {
	block bool
	// fsType is the file system that was asked for by name, FilesystemNone if none was.
	fsType capacity.Filesystem
	// options are those of the mount.
	options mountOptions
}

// checkCapabilities reads the capabilities that one volume must satisfy all at once.
func checkCapabilities(caps []*csi.VolumeCapability) (access, error) {
	if len(caps) == 0 {
		return access{}, capabilitiesMissing.errorf()
	}
	var out access
	for i, c := range caps {
		a, err := checkCapability(c)
		switch {
		case err != nil:
			return access{}, err
		case i == 0:
			out = a
		case a.block != out.block:
			return access{}, capabilitiesMixed.errorf()
		case a.fsType != out.fsType:
			return access{}, filesystemsMixed.errorf(out.fsType, a.fsType)
		}
	}
	return out, nil
}

// checkCapability reads one capability. The node service uses it too.
func checkCapability(c *csi.VolumeCapability) (access, error) {
	if c == nil {
		return access{}, capabilitiesMissing.errorf()
	}
	if err := checkAccessMode(c.GetAccessMode().GetMode()); err != nil {
		return access{}, err
	}
	switch {
	case c.GetBlock() != nil:
		return access{block: true}, nil
	case c.GetMount() != nil:
		fs, known := capacity.ParseFilesystem(c.GetMount().GetFsType())
		if !known {
			return access{}, filesystemUnknown.errorf(c.GetMount().GetFsType(), filesystemNames())
		}
		options, err := parseMountOptions(c.GetMount().GetMountFlags())
		return access{fsType: fs, options: options}, err
	default:
		return access{}, accessTypeMissing.errorf()
	}
}

// accessModes are the modes in which a disk of one node can be used.
func accessModes() []csi.VolumeCapability_AccessMode_Mode {
	return []csi.VolumeCapability_AccessMode_Mode{
		csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
		csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
		csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER,
		csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER,
	}
}

func checkAccessMode(mode csi.VolumeCapability_AccessMode_Mode) error {
	for _, possible := range accessModes() {
		if mode == possible {
			return nil
		}
	}
	if mode == csi.VolumeCapability_AccessMode_UNKNOWN {
		return accessModeMissing.errorf()
	}
	return accessModeShared.errorf(mode)
}

func filesystemNames() string {
	var names []string
	for _, fs := range capacity.Filesystems() {
		names = append(names, string(fs))
	}
	return strings.Join(names, ", ")
}
