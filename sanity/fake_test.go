package sanity

import (
	"path/filepath"
	"testing"

	"github.com/csi-local/csi-local/pkg/driver/drivertest"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

// TestSanity_Fake asks everything about thick and thin volumes of a node that is fake
// below the driver: LVM in memory, mounts in a table, sparse files for devices.
func TestSanity_Fake(t *testing.T) {
	const group = "vgA"
	disk := lvmfake.Disk{SizeBytes: 4 << 30}
	bed := drivertest.ForTest(t, drivertest.Options{
		Groups:    []lvmfake.Group{{Name: group, Disks: []lvmfake.Disk{disk, disk}}},
		ThinPools: []lvm.ThinPoolRequest{{Ref: lvm.Ref{VolumeGroup: group, Name: "tp0"}, SizeBytes: 1 << 30}},
		Pools: []poolconfig.Pool{
			drivertest.ThickPool("pool-thick", group), drivertest.ThinPool("pool-thin", group, "tp0"),
		},
	})
	var variants []Variant
	for _, kind := range []struct {
		name       string
		parameters map[string]string
	}{
		{"thick linear", map[string]string{"pool": "pool-thick"}},
		{"thick striped", map[string]string{"pool": "pool-thick", "layout": "striped", "stripes": "2"}},
		{"thick raid1", map[string]string{"pool": "pool-thick", "layout": "raid1"}},
		{"thin", map[string]string{"pool": "pool-thin"}},
	} {
		for _, access := range []string{"filesystem", "block"} {
			variants = append(variants, Variant{
				Name: kind.name + " " + access, Endpoint: "unix://" + filepath.Join(bed.Dir, "csi.sock"), KubeletDir: bed.KubeletDir,
				Parameters: kind.parameters, Block: access == "block",
				VolumeBytes: 64 << 20, ExpandedBytes: 96 << 20,
			})
		}
	}
	Run(t, variants...)
	if mounts := bed.Kernel.Mounts(); len(mounts) > 0 {
		t.Errorf("%d mounts are left: %v", len(mounts), mounts)
	}
	state, err := bed.LVM.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	vg, ok := state.VolumeGroup(group)
	if !ok {
		t.Fatalf("volume group %s is gone", group)
	}
	for _, lv := range vg.LogicalVolumes {
		if lv.Name != "tp0" {
			t.Errorf("volume %s is left", lv.Name)
		}
	}
}
