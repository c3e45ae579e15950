package driver

import (
	"testing"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
)

// What is published is what the metrics show, and our own volumes do not move it.
func TestPoolReadings(t *testing.T) {
	w := newWorld(t, worldOptions{})
	p := w.start(t)
	before := readingOf(t, p.PoolReadings(t.Context()), "thick")
	if before.Err != nil || before.AllocatableBytes != 4*gib || before.ExtentSizeBytes != 4*mib || before.Filesystem != capacity.FilesystemExt4 || before.Age < 0 {
		t.Errorf("reading %+v", before)
	}
	mustCreate(t, p, createReq("v1", "thick", 8*mib))
	if err := p.RefreshPools(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := readingOf(t, p.PoolReadings(t.Context()), "thick")
	if after.AllocatableBytes != before.AllocatableBytes {
		t.Errorf("a volume of ours moved allocatable from %d to %d", before.AllocatableBytes, after.AllocatableBytes)
	}
}

func readingOf(t *testing.T, readings []capacity.PoolReading, pool string) capacity.PoolReading {
	t.Helper()
	for _, r := range readings {
		if r.Pool == pool {
			return r
		}
	}
	t.Fatalf("no reading of pool %s in %+v", pool, readings)
	return capacity.PoolReading{}
}

// Of a pool that cannot be used no figure is read, so none can be published: a disk
// or the whole volume group is missing, or two groups have the name, as with a
// cloned disk (hwameistor/hwameistor#1437). The other pool is not touched by that.
func TestPoolReadings_PoolThatCannotBeUsed(t *testing.T) {
	for name, damage := range map[string]func(w *world, group lvm.VolumeGroup) error{
		"a disk is missing": func(w *world, group lvm.VolumeGroup) error {
			return w.machine.SetDiskMissing(group.Name, group.PhysicalVolumes[0].Device, true)
		},
		"the group is missing": func(w *world, group lvm.VolumeGroup) error {
			w.machine.RemoveGroup(group.UUID)
			return nil
		},
		"two groups have the name": func(w *world, _ lvm.VolumeGroup) error {
			_, err := w.machine.AddGroup(lvmfake.Group{Name: "vg-a", Disks: []lvmfake.Disk{{SizeBytes: gib}}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, worldOptions{})
			state, err := w.client(t).State(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			group, _ := state.VolumeGroup("vg-a")
			if err := damage(w, group); err != nil {
				t.Fatal(err)
			}
			readings := w.start(t).PoolReadings(t.Context())
			if got := readingOf(t, readings, "thick"); got.Err == nil || got.AllocatableBytes != 0 {
				t.Errorf("reading %+v", got)
			}
			if got := readingOf(t, readings, "thin"); got.Err != nil || got.AllocatableBytes == 0 {
				t.Errorf("the other pool: %+v", got)
			}
		})
	}
}
