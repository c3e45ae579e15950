package driver

import (
	"context"
	"time"
)

// SweepForTest looks once for abandoned inline volumes and deletes those that
// it finds, one after the other.
func (d *Driver) SweepForTest(ctx context.Context) error {
	volumes, err := d.abandoned(ctx)
	for _, v := range volumes {
		d.deleteAbandoned(ctx, v)
	}
	return err
}

// WithWaits shortens the waits of a Registration.
func (r Registration) WithWaits(retry, look time.Duration) Registration {
	r.retryMin, r.retryMax, r.look = retry, retry, look
	return r
}
