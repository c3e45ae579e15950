package driver

import (
	"context"
	"time"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// PoolReadings returns what is known of each configured pool, one reading each,
// in the order of the configuration. It starts no process, and waits only for
// LVM's very first report, as long as ctx allows.
func (d *Driver) PoolReadings(ctx context.Context) []capacity.PoolReading {
	inv, err := d.inventory(ctx)
	var readings []capacity.PoolReading
	for _, pool := range d.pools() {
		reading := capacity.PoolReading{Pool: pool.Name, Filesystem: pool.DefaultFilesystem, Err: err}
		if err == nil {
			reading.Age = max(time.Since(inv.state.Taken), 0)
			var usage poolUsage
			if usage, reading.Err = inv.usage(pool); reading.Err == nil {
				reading.AllocatableBytes = usage.allocatable()
				reading.ExtentSizeBytes = usage.group.ExtentSizeBytes
				reading.AtWatermark = usage.atWatermark()
			}
		}
		readings = append(readings, reading)
	}
	return readings
}

// RefreshPools reads the pools anew from LVM.
func (d *Driver) RefreshPools(ctx context.Context) error {
	_, err := d.freshInventory(ctx)
	return err
}

// atWatermark tells that a thin pool takes no more volumes because its data or
// its metadata is too full.
func (u poolUsage) atWatermark() bool {
	return u.pool.Type == capacity.PoolThin && (u.thin.DataPercent >= float64(u.thin.DataWatermarkPercent) ||
		u.thin.MetadataPercent >= float64(u.thin.MetadataWatermarkPercent))
}
