package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

// Reasons of health conditions: CamelCase words that programs may match on.
const (
	reasonDiskMissing       = "PhysicalVolumeMissing"
	reasonRefreshNeeded     = "RefreshNeeded"
	reasonPoolFull          = "ThinPoolFull"
	reasonPoolReadOnly      = "ThinPoolReadOnly"
	reasonPoolNearlyFull    = "ThinPoolNearlyFull"
	reasonPoolRepair        = "ThinPoolNeedsRepair"
	reasonFailed            = "DeviceFailed"
	reasonFilesystemFailed  = "FilesystemReadOnly"
	reasonFilesystemErrors  = "FilesystemErrors"
	reasonNotResponding     = "NotResponding"
	reasonOtherHealth       = "Unhealthy"
	reasonGroupMissing      = "VolumeGroupMissing"
	reasonGroupAmbiguous    = "VolumeGroupAmbiguous"
	reasonGroupUnusable     = "VolumeGroupUnusable"
	reasonPoolMisconfigured = "PoolUnusable"
)

// healthWait is how long a file system may take to say how it is.
const healthWait = 2 * time.Second

// NodeGetVolumeHealth says what is known to be wrong with a volume, from the
// last state of LVM and the mount table. It starts no process, and works for
// volumes that could not be staged.
func (s *nodeServer) NodeGetVolumeHealth(ctx context.Context, req *csi.NodeGetVolumeHealthRequest) (*csi.NodeGetVolumeHealthResponse, error) {
	id := req.GetVolumeId()
	if id == "" {
		return nil, volumeIDMissing.errorf()
	}
	inv, err := s.inventory(ctx)
	if err != nil {
		return nil, err
	}
	health := &csi.VolumeHealth{VolumeId: id}
	v, err := s.lookupKnown(ctx, id)
	switch {
	case isGroupProblem(err):
		health.HealthStatuses = []*csi.VolumeHealth_VolumeHealthEntry{
			inaccessible(reasonOfProblem(err), err.Error()),
		}
	case err != nil:
		return nil, err
	default:
		health.HealthStatuses, err = s.healthOf(ctx, inv, v)
	}
	if err != nil && !isGroupProblem(err) {
		return nil, err
	}
	return &csi.NodeGetVolumeHealthResponse{VolumeHealth: health}, nil
}

func isGroupProblem(err error) bool {
	return errors.Is(err, lvm.ErrVolumeGroupMissing) || errors.Is(err, lvm.ErrVolumeGroupAmbiguous) ||
		errors.Is(err, lvm.ErrPhysicalVolumeMissing)
}

func reasonOfProblem(err error) string {
	switch {
	case errors.Is(err, lvm.ErrVolumeGroupMissing):
		return reasonGroupMissing
	case errors.Is(err, lvm.ErrVolumeGroupAmbiguous):
		return reasonGroupAmbiguous
	case errors.Is(err, lvm.ErrPhysicalVolumeMissing):
		return reasonDiskMissing
	}
	return reasonGroupUnusable
}

func (d *Driver) healthOf(ctx context.Context, inv *inventory, v volume) ([]*csi.VolumeHealth_VolumeHealthEntry, error) {
	entries := lvmHealth(v.LogicalVolume)
	if v.ThinPool != "" {
		entries = append(entries, thinPoolHealth(inv, v)...)
	}
	table, err := d.mountTable()
	if err != nil {
		return nil, err
	}
	entries = append(entries, d.filesystemHealth(ctx, v, table.of(numberOf(v)))...)
	// A volume and its thin pool can have the same trouble; the specification
	// wants each (status, reason) once.
	seen := map[string]bool{}
	return slices.DeleteFunc(entries, func(e *csi.VolumeHealth_VolumeHealthEntry) bool {
		key := e.GetStatus().String() + e.GetReason()
		defer func() { seen[key] = true }()
		return seen[key]
	}), nil
}

// filesystemHealth looks at one of the volume's mounts; all show the same file system.
func (d *Driver) filesystemHealth(ctx context.Context, v volume, mounts []Mount) []*csi.VolumeHealth_VolumeHealthEntry {
	i := slices.IndexFunc(mounts, func(m Mount) bool { return !m.Block })
	if i < 0 {
		return nil
	}
	var found []*csi.VolumeHealth_VolumeHealthEntry
	if mounts[i].failed() {
		found = append(found, degraded(reasonFilesystemFailed, "the kernel made the file system read-only after errors"))
	}
	// That the file system does not answer is an answer, and must come in time.
	ctx, cancel := context.WithTimeout(ctx, healthWait)
	defer cancel()
	usage, err := d.usageAt(ctx, v, mounts[i])
	switch {
	case errors.Is(err, errNotFound): // unmounted meanwhile
	case err != nil:
		found = append(found, inaccessible(reasonNotResponding, err.Error()))
	case usage.Errors > 0:
		found = append(found, degraded(reasonFilesystemErrors, fmt.Sprintf("the file system has noted %d errors; it is checked when it is staged next", usage.Errors)))
	}
	return found
}

// lvmHealth reads lv_health_status; see lvs(8) and lvmreport(7).
func lvmHealth(lv lvm.LogicalVolume) []*csi.VolumeHealth_VolumeHealthEntry {
	switch lv.Health {
	case "":
		return nil
	case "partial":
		if lv.SegmentType == lvm.SegRAID1 {
			return entries(degraded(reasonDiskMissing, "a copy of the volume is on a disk that is missing"))
		}
		return entries(inaccessible(reasonDiskMissing, "a part of the volume is on a disk that is missing"))
	case "refresh needed", "mismatches exist":
		return entries(degraded(reasonRefreshNeeded, "a copy is out of date (LVM: "+lv.Health+"); see lvchange --refresh and lvmraid(7)"))
	case "failed":
		return entries(inaccessible(reasonFailed, "the device has failed"))
	case "out_of_data":
		return entries(inaccessible(reasonPoolFull, "the thin pool has no room for more data: writes fail"))
	case "metadata_read_only":
		return entries(inaccessible(reasonPoolReadOnly, "the thin pool's metadata is read-only: writes fail"))
	default:
		return entries(degraded(reasonOtherHealth, "LVM: "+lv.Health))
	}
}

func thinPoolHealth(inv *inventory, v volume) []*csi.VolumeHealth_VolumeHealthEntry {
	pool, ok := inv.state.LogicalVolume(lvm.Ref{VolumeGroup: v.VolumeGroup, Name: v.ThinPool})
	if !ok {
		return nil
	}
	found := lvmHealth(pool)
	if pool.NeedsCheck {
		found = append(found, inaccessible(reasonPoolRepair, "the thin pool's metadata needs a check; see lvmthin(7)"))
	}
	return found
}

func entries(e ...*csi.VolumeHealth_VolumeHealthEntry) []*csi.VolumeHealth_VolumeHealthEntry {
	return e
}

func degraded(reason, message string) *csi.VolumeHealth_VolumeHealthEntry {
	return &csi.VolumeHealth_VolumeHealthEntry{Status: csi.VolumeHealthErrorType_DEGRADED, Reason: reason, Message: message}
}

func inaccessible(reason, message string) *csi.VolumeHealth_VolumeHealthEntry {
	return &csi.VolumeHealth_VolumeHealthEntry{Status: csi.VolumeHealthErrorType_INACCESSIBLE, Reason: reason, Message: message}
}

// NodeGetStorageHealth says what is known to be wrong with the node's pools. It
// starts no process.
func (s *nodeServer) NodeGetStorageHealth(ctx context.Context, _ *csi.NodeGetStorageHealthRequest) (*csi.NodeGetStorageHealthResponse, error) {
	inv, err := s.inventory(ctx)
	if err != nil {
		return nil, err
	}
	// The specification wants each (status, reason) once, so the pools with the
	// same trouble share an entry.
	found := map[storageCondition][]string{}
	for _, pool := range s.pools() {
		for condition, message := range poolHealth(inv, pool) {
			found[condition] = append(found[condition], message)
		}
	}
	response := &csi.NodeGetStorageHealthResponse{}
	order := slices.SortedFunc(maps.Keys(found), func(a, b storageCondition) int {
		return cmp.Or(cmp.Compare(b.status, a.status), strings.Compare(a.reason, b.reason))
	})
	for _, condition := range order {
		slices.Sort(found[condition])
		response.BackendHealth = append(response.BackendHealth, &csi.NodeGetStorageHealthResponse_StorageBackendHealth{
			Status: condition.status, Reason: condition.reason, Message: strings.Join(found[condition], "; "),
		})
	}
	return response, nil
}

// storageCondition is what is wrong with a pool.
type storageCondition struct {
	status csi.StorageHealthErrorType
	reason string
}

func poolHealth(inv *inventory, pool poolconfig.Pool) map[storageCondition]string {
	found := map[storageCondition]string{}
	add := func(status csi.StorageHealthErrorType, reason, message string) {
		found[storageCondition{status, reason}] = fmt.Sprintf("pool %s: %s", pool.Name, message)
	}
	const lost, weak = csi.StorageHealthErrorType_STORAGE_UNREACHABLE, csi.StorageHealthErrorType_STORAGE_DEGRADED
	if err, bad := inv.state.Problems[pool.VolumeGroup]; bad {
		status := lost
		if errors.Is(err, lvm.ErrPhysicalVolumeMissing) {
			status = weak // volumes on the other disks still work
		}
		add(status, reasonOfProblem(err), err.Error())
		return found
	}
	group, ok := inv.state.VolumeGroup(pool.VolumeGroup)
	if !ok {
		add(lost, reasonGroupMissing, "volume group "+pool.VolumeGroup+" is not there")
		return found
	}
	for _, disk := range group.PhysicalVolumes {
		if disk.Missing {
			add(weak, reasonDiskMissing, "a physical volume of "+group.Name+" is missing")
		}
	}
	if pool.Type != capacity.PoolThin {
		return found
	}
	usage, err := inv.usage(pool)
	if err != nil {
		add(weak, reasonPoolMisconfigured, err.Error())
		return found
	}
	thinPool, _ := group.LogicalVolume(pool.ThinPool)
	for _, entry := range lvmHealth(thinPool) {
		add(weak, entry.GetReason(), entry.GetMessage())
	}
	if t := usage.thin; t.DataPercent >= float64(t.DataWatermarkPercent) || t.MetadataPercent >= float64(t.MetadataWatermarkPercent) {
		add(weak, reasonPoolNearlyFull, fmt.Sprintf("thin pool %s is %.1f %% full, its metadata %.1f %%; the watermarks are %d %% and %d %%",
			thinPool.Ref(), t.DataPercent, t.MetadataPercent, t.DataWatermarkPercent, t.MetadataWatermarkPercent))
	}
	return found
}
