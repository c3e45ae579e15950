package administrator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmtest"
	"github.com/csi-local/csi-local/test/lvm/onegroup"
	"github.com/csi-local/csi-local/test/vm"
)

const mib = 1 << 20

func TestMain(m *testing.M) {
	vm.Main(m, vm.Options{Disks: []vm.Disk{{SizeBytes: 1 << 30}, {SizeBytes: 1 << 30}}})
}

// rounds of four commands of the administrator, and of four of ours, less a removal in five: 513 of each.
const rounds = 135

// administrator makes, tags and removes volumes with plain lvm; every fifth stays.
func administrator(ctx context.Context, r *lvmtest.Real) error {
	for i := range rounds {
		name := fmt.Sprintf("vgA/theirs%d", i)
		commands := [][]string{
			{"lvcreate", "-y", "-Wn", "-Zn", "-l", "1", "-n", strings.TrimPrefix(name, "vgA/"), "vgA"},
			{"lvchange", "--addtag", "theirs", name}, {"lvextend", "-l", "2", name}, {"lvremove", "-y", name},
		}
		if i%5 == 0 {
			commands = commands[:3]
		}
		for _, args := range commands {
			if _, err := r.Host(ctx, args...); err != nil {
				return err
			}
		}
	}
	return nil
}

// ours does the like through the client.
func ours(ctx context.Context, c *lvm.Client) error {
	for i := range rounds {
		v := onegroup.Ref("ours%d", i)
		_, created := c.Create(ctx, onegroup.Linear(v))
		_, extended := c.Extend(ctx, v, 8*mib)
		err := errors.Join(created, extended, c.ChangeTags(ctx, v, []string{"changed"}, nil))
		if i%5 != 0 {
			err = errors.Join(err, c.Remove(ctx, v))
		}
		if err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
	}
	return nil
}

func TestAdministrator_WorksBesideUsAndNothingIsLost(t *testing.T) {
	r := lvmtest.NewReal(t, strings.Fields(os.Getenv(vm.EnvDisks)), lvm.Options{})
	r.AddGroup(t, "vgA", 4*mib, 2)
	c := r.Client(t, lvm.VolumeGroupSelector{Name: "vgA"})
	before := onegroup.Refreshed(t, c)
	done := make(chan error, 1)
	go func() { done <- administrator(t.Context(), r) }()
	if err := errors.Join(ours(t.Context(), c), <-done); err != nil {
		t.Fatal(err)
	}
	if out, err := r.Host(t.Context(), "vgck", "vgA"); err != nil {
		t.Error(err, out)
	}
	vg := onegroup.Refreshed(t, c)
	taken := int64(0)
	for _, lv := range vg.LogicalVolumes {
		tags := strings.Join(lv.Tags, ",")
		mine, theirs := tags == "changed,ours", tags == "theirs"
		if mine != strings.HasPrefix(lv.Name, "ours") || theirs != strings.HasPrefix(lv.Name, "theirs") || lv.SizeBytes != 8*mib {
			t.Errorf("left over: %+v", lv)
		}
		taken += lv.FootprintExtents
	}
	if want := 2 * rounds / 5; len(vg.LogicalVolumes) != want || vg.FreeExtents != before.FreeExtents-taken || taken != int64(2*want) {
		t.Errorf("%d volumes, want %d; they take %d extents, the group lost %d",
			len(vg.LogicalVolumes), want, taken, before.FreeExtents-vg.FreeExtents)
	}
}
