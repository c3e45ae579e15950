package driver_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/csi-local/csi-local/pkg/driver/drivertest"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
)

// The power fails between LVM's record of a thin volume and the thin pool's own:
// the volume is there, and its pool does not know it until LVM tells it, which it
// does with the next thin volume that it makes or removes in that pool.
func TestStage_ThinVolumeThatItsPoolWasNotToldOf(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprint("deaf=", deaf), func(t *testing.T) {
			b := drivertest.ForTest(t, thinOptions())
			v, err := newVolumeOf(t.Context(), b, "vol1", gib, mountCap("ext4", writer), map[string]string{"pool": "pool-thin"})
			must(t, err)
			told := false
			var made []string
			b.LVM.SetHook(func(_ context.Context, c lvmfake.Call) error {
				switch {
				case c.Op == lvmfake.OpActivate && c.Phase == lvmfake.Before && c.Ref == v.Ref && !told:
					return fmt.Errorf("%w: No data available", lvm.ErrThinDeviceMissing)
				case c.Op == lvmfake.OpCreate && c.Phase == lvmfake.After:
					told = !deaf
					made = append(made, c.Add...)
				}
				return nil
			})
			if deaf {
				wantCode(t, v.Stage(t.Context()), codes.Internal)
			} else {
				must(t, v.Stage(t.Context()), v.mark(t.Context(), "precious"))
			}
			if !slices.Contains(made, "csi-local/state=deleting") {
				t.Errorf("a process that ends here leaves for good: %v", made)
			}
			state, err := b.LVM.Refresh(t.Context())
			must(t, err)
			vg, _ := state.VolumeGroup(v.Ref.VolumeGroup)
			for _, lv := range vg.LogicalVolumes {
				if lv.SegmentType == lvm.SegThin && lv.Name != v.Ref.Name {
					t.Errorf("%s is left", lv.Name)
				}
			}
		})
	}
}
