package driver

import (
	"context"
	"sync"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

// admissions holds the pool bytes of volumes that are being made or extended
// until the state of LVM shows them. Without it two calls at once could both
// find room for one volume above the reserve, or above the overprovision ratio,
// which LVM does not know.
type admissions struct {
	mu   sync.Mutex
	held map[lvm.Ref]admission
}

type admission struct {
	pool string
	// sizeBytes is the size that the volume will have; from then on its bytes
	// are in the state and the admission counts no more.
	sizeBytes int64
	// poolBytes is what it takes from the pool beyond what it has now.
	poolBytes int64
}

func newAdmissions() *admissions { return &admissions{held: map[lvm.Ref]admission{}} }

// admit checks that the pool has poolBytes available for the volume that ref
// names to become sizeBytes big, and holds them until release is called, which
// must be after the effect has ended. It asks LVM before it refuses: somebody
// may have made room by hand. An error matches errExhausted or says why the
// pool cannot be used. The caller has the lock of the volume.
func (d *Driver) admit(ctx context.Context, pool poolconfig.Pool, ref lvm.Ref, sizeBytes, poolBytes int64) (release func(), err error) {
	want := admission{pool: pool.Name, sizeBytes: sizeBytes, poolBytes: poolBytes}
	if release, err = d.admitNow(ctx, pool, ref, want); err == nil {
		return release, nil
	}
	if _, err := d.freshInventory(ctx); err != nil {
		return nil, err
	}
	return d.admitNow(ctx, pool, ref, want)
}

// admitNow reads the state under the lock: what was released before is in it.
func (d *Driver) admitNow(ctx context.Context, pool poolconfig.Pool, ref lvm.Ref, want admission) (release func(), err error) {
	a := d.admissions
	a.mu.Lock()
	defer a.mu.Unlock()
	inv, err := d.inventory(ctx)
	if err != nil {
		return nil, err
	}
	usage, err := inv.usage(pool)
	if err != nil {
		return nil, err
	}
	available := max(usage.available()-a.pending(inv, pool.Name), 0)
	if want.poolBytes > available {
		return nil, poolFull.errorf(pool.Name, d.nodeName, capacity.FormatBytes(available), capacity.FormatBytes(want.poolBytes))
	}
	a.held[ref] = want
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.held, ref)
	}, nil
}

// pending sums up what is held for a pool and not in the state yet. The caller holds mu.
func (a *admissions) pending(inv *inventory, pool string) int64 {
	var sum int64
	for ref, held := range a.held {
		if held.pool != pool {
			continue
		}
		if v, ok := inv.find(ref); ok && v.SizeBytes >= held.sizeBytes {
			continue
		}
		sum += held.poolBytes
	}
	return sum
}
