package driver

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

// Keys of the volume context, as it stands in the PersistentVolume. They are
// those of the class parameters, so that whoever has the PersistentVolume can
// compute its footprint with the same functions; and these two.
const (
	contextSize       = capacity.ParamSize
	contextFilesystem = "filesystem"
)

// createRequest is a checked CreateVolumeRequest.
type createRequest struct {
	csiName string
	// ref is where the volume is, or will be.
	ref    lvm.Ref
	pool   poolconfig.Pool
	shape  capacity.Shape
	access access
	// fsType is the file system that the first stage will make: what was asked
	// for, else the pool's default; FilesystemNone for block volumes.
	fsType      capacity.Filesystem
	wipe        capacity.WipePolicy
	mkfsOptions string
	// podUID is the pod of an inline volume, empty for persistent ones.
	podUID string
	// requiredBytes and limitBytes are as in the specification; 0 is no bound.
	requiredBytes, limitBytes int64
}

// parseCreate checks all of a request that does not depend on LVM's state.
func (d *Driver) parseCreate(req *csi.CreateVolumeRequest) (createRequest, error) {
	lvName, err := volumeNameFor(req.GetName())
	if err != nil {
		return createRequest{}, err
	}
	access, err := checkCapabilities(req.GetVolumeCapabilities())
	if err != nil {
		return createRequest{}, err
	}
	if req.GetVolumeContentSource() != nil {
		return createRequest{}, contentSourceUnsupported.errorf()
	}
	if len(req.GetMutableParameters()) > 0 {
		return createRequest{}, mutableParameters.errorf(sortedKeys(req.GetMutableParameters()))
	}
	class, err := capacity.ParseClassParameters(req.GetParameters())
	if err != nil {
		return createRequest{}, err
	}
	if err := d.checkTopology(req.GetAccessibilityRequirements()); err != nil {
		return createRequest{}, err
	}
	out := createRequest{
		csiName: req.GetName(), access: access, mkfsOptions: req.GetParameters()[capacity.ParamMkfsOptions],
		requiredBytes: req.GetCapacityRange().GetRequiredBytes(), limitBytes: req.GetCapacityRange().GetLimitBytes(),
	}
	out.pool, err = d.pool(class.Pool)
	if err != nil {
		return createRequest{}, err
	}
	if err := class.Validate(out.pool.Type, out.pool.Wipe); err != nil {
		return createRequest{}, err
	}
	out.ref = lvm.Ref{VolumeGroup: out.pool.VolumeGroup, Name: lvName}
	out.shape = class.ShapeIn(out.pool.Type)
	out.wipe = class.WipeIn(out.pool.Wipe)
	out.fsType = filesystemFor(access, class, out.pool)
	if out.fsType != capacity.FilesystemNone {
		// Staging refuses them too, but there the pod is on the node already.
		if _, err := parseMkfsOptions(string(out.fsType), out.mkfsOptions); err != nil {
			return createRequest{}, err
		}
	}
	return out, d.checkTools(out.fsType)
}

// checkTools refuses file systems for which this node has not all programs.
func (d *Driver) checkTools(fs capacity.Filesystem) error {
	if fs == capacity.FilesystemNone {
		return nil
	}
	if missing := d.mounter.MissingTools(string(fs)); len(missing) > 0 {
		return toolsMissing.errorf(fs, d.nodeName, strings.Join(missing, ", "))
	}
	return nil
}

func sortedKeys(m map[string]string) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}

func filesystemFor(a access, class capacity.ClassParameters, pool poolconfig.Pool) capacity.Filesystem {
	switch {
	case a.block:
		return capacity.FilesystemNone
	case a.fsType != capacity.FilesystemNone:
		return a.fsType
	case class.Filesystem != capacity.FilesystemNone:
		return class.Filesystem
	default:
		return pool.DefaultFilesystem
	}
}

// classHash fingerprints what the volume was asked to be, name and size apart.
// The pool's own settings are not in it: they may change between two calls that
// ask for the same.
func (r createRequest) classHash() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %d %v %q %q", r.pool.Name, r.shape.Layout,
		r.shape.Stripes, r.shape.StripeSizeBytes, r.access.block, r.access.fsType, r.mkfsOptions))
	return hex.EncodeToString(sum[:8])
}

// lvmRequest is the one command that makes the volume.
func (r createRequest) lvmRequest(driverName string, sizeBytes int64) lvm.CreateRequest {
	out := lvm.CreateRequest{
		Ref:       r.ref,
		SizeBytes: sizeBytes,
		Tags: encodeTags(driverName, volume{
			CSIName: r.csiName, Pool: r.pool.Name, Layout: string(r.shape.Layout),
			ClassHash: r.classHash(), Wipe: string(r.wipe), State: stateNew,
			EphemeralPodUID: r.podUID,
		}),
	}
	switch r.shape.Layout {
	case capacity.LayoutThin:
		out.SegmentType, out.ThinPool = lvm.SegThin, r.pool.ThinPool
	case capacity.LayoutStriped:
		out.SegmentType, out.Stripes, out.StripeSizeBytes = lvm.SegStriped, r.shape.Stripes, r.shape.StripeSizeBytes
	case capacity.LayoutRAID1:
		out.SegmentType, out.Stripes = lvm.SegRAID1, r.shape.Stripes
	default:
		out.SegmentType = lvm.SegLinear
	}
	return out
}

// volumeContext is what the node service and everybody who reads the
// PersistentVolume get to know of the volume.
func (r createRequest) volumeContext(sizeBytes int64) map[string]string {
	out := map[string]string{
		capacity.ParamPool:   r.pool.Name,
		capacity.ParamLayout: string(r.shape.Layout),
		contextSize:          strconv.FormatInt(sizeBytes, 10),
	}
	switch r.shape.Layout {
	case capacity.LayoutStriped:
		out[capacity.ParamStripes] = strconv.Itoa(r.shape.Stripes)
	case capacity.LayoutRAID1:
		out[capacity.ParamMirrors] = strconv.Itoa(r.shape.Stripes)
	}
	if r.fsType != capacity.FilesystemNone {
		out[contextFilesystem] = string(r.fsType)
		if r.mkfsOptions != "" {
			out[capacity.ParamMkfsOptions] = r.mkfsOptions
		}
	}
	return out
}

// checkExisting tells whether a volume of that name satisfies the request too.
// Wipe is left out: it says nothing about what the volume is.
func (r createRequest) checkExisting(v volume) error {
	if r.podUID != "" {
		// An inline volume is its pod's, whatever else has changed since.
		if v.EphemeralPodUID != r.podUID {
			return inlineOfOtherPod.errorf(r.csiName, v.EphemeralPodUID, r.podUID)
		}
		return checkAlive(v)
	}
	switch {
	case v.State == stateDeleting:
		return nameIsDeleting.errorf(r.csiName)
	case v.VolumeGroup != r.ref.VolumeGroup || v.Pool != r.pool.Name:
		return existsInOtherPool.errorf(r.csiName, v.ID(), v.Pool, r.pool.Name)
	case v.ClassHash != r.classHash():
		return existsOtherwise.errorf(r.csiName, v.ID())
	case v.SizeBytes < r.requiredBytes || r.limitBytes > 0 && v.SizeBytes > r.limitBytes:
		return existsInOtherSize.errorf(r.csiName, v.ID(), capacity.FormatBytes(v.SizeBytes),
			capacity.FormatBytes(r.requiredBytes), capacity.FormatBytes(r.limitBytes))
	}
	return nil
}
