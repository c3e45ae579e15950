package beside

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmtest"
	"github.com/csi-local/csi-local/test/lvm/onegroup"
	"github.com/csi-local/csi-local/test/vm"
)

const mib = 1 << 20

func TestMain(m *testing.M) {
	disks := make([]vm.Disk, 3)
	for i := range disks {
		disks[i].SizeBytes = 1 << 30
	}
	vm.Main(m, vm.Options{Disks: disks})
}

func disks() []string { return strings.Fields(os.Getenv(vm.EnvDisks)) }

func host(t *testing.T, r *lvmtest.Real, args ...string) string {
	t.Helper()
	out, err := r.Host(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDisk_AddedByHandIsUsed(t *testing.T) {
	r := lvmtest.NewReal(t, disks(), lvm.Options{})
	r.AddGroup(t, "vgA", 4*mib, 1)
	c := r.Client(t, lvm.VolumeGroupSelector{Name: "vgA"})
	if _, err := c.Create(t.Context(), onegroup.Linear(onegroup.Ref("a"))); err != nil {
		t.Fatal(err)
	}
	before := onegroup.Refreshed(t, c)
	disk := r.TakeDisk(t)
	host(t, r, "vgextend", "vgA", disk)
	host(t, r, "lvcreate", "-y", "-Wn", "-Zn", "-l", "3", "-n", "theirs", "vgA", disk)
	// The client has not looked since. What it does now must not cost the new disk.
	for what, call := range map[string]func() error{
		"ChangeTags": func() error { return c.ChangeTags(t.Context(), onegroup.Ref("a"), []string{"x"}, nil) },
		"Create":     func() error { _, err := c.Create(t.Context(), onegroup.Linear(onegroup.Ref("b"))); return err },
		"Remove":     func() error { return c.Remove(t.Context(), onegroup.Ref("a")) },
	} {
		if err := call(); err != nil && !errors.Is(err, lvm.ErrNotFound) {
			t.Errorf("%s after vgextend: %v", what, err)
		}
	}
	vg := onegroup.Refreshed(t, c)
	if len(vg.PhysicalVolumes) != 2 || vg.ExtentCount != 2*before.ExtentCount {
		t.Errorf("after vgextend: %+v", vg.PhysicalVolumes)
	}
	if lv, ok := vg.LogicalVolume("theirs"); !ok || lv.FootprintExtents != 3 || lv.Health != "" {
		t.Errorf("the volume on the new disk: %+v", lv)
	}
	if missing := strings.TrimSpace(host(t, r, "vgs", "--noheadings", "-o", "vg_missing_pv_count", "vgA")); missing != "0" {
		t.Errorf("%s disks are missing for the host", missing)
	}
	spanning := onegroup.Linear(onegroup.Ref("spanning"))
	spanning.SizeBytes = vg.FreeExtents * vg.ExtentSizeBytes
	if _, err := c.Create(t.Context(), spanning); err != nil {
		t.Errorf("a volume over both disks: %v", err)
	}
	if err := c.Remove(t.Context(), spanning.Ref); err != nil {
		t.Fatal(err)
	}
	host(t, r, "lvremove", "-y", "vgA/theirs")
	host(t, r, "vgreduce", "vgA", disk)
	if vg = onegroup.Refreshed(t, c); len(vg.PhysicalVolumes) != 1 || vg.ExtentCount != before.ExtentCount {
		t.Errorf("after vgreduce: %+v", vg.PhysicalVolumes)
	}
	host(t, r, "vgck", "vgA")
}

// A guest that gets one of our volumes as a disk may make LVM on it, with any names.
func TestGuest_VolumeGroupInsideOurVolumeIsNotSeen(t *testing.T) {
	r := lvmtest.NewReal(t, disks(), lvm.Options{})
	uuid := r.AddGroup(t, "vgA", 4*mib, 1)
	c := r.Client(t, lvm.VolumeGroupSelector{Name: "vgA"})
	disk := onegroup.Linear(onegroup.Ref("guestdisk"))
	disk.SizeBytes = 64 * mib
	if _, err := c.Create(t.Context(), disk); err != nil {
		t.Fatal(err)
	}
	lv, err := c.Activate(t.Context(), disk.Ref)
	if err != nil {
		t.Fatal(err)
	}
	// A guest has a /dev of its own.
	inside := []string{"--config", `devices/dir="` + t.TempDir() + `" devices/scan=["/dev"] devices/scan_lvs=1 ` +
		`devices/global_filter=["a|^` + lv.Path + `$|","r|.*|"]`}
	r.Admin(t, append([]string{"vgcreate"}, append(inside, "vgA", lv.Path)...)...)
	r.Admin(t, append([]string{"lvcreate"}, append(inside, "-y", "-an", "-Zn", "-Wn", "-l", "1", "-n", "a", "vgA")...)...)
	fresh := r.Client(t, lvm.VolumeGroupSelector{Name: "vgA"})
	for name, client := range map[string]*lvm.Client{"the old client": c, "a new one": fresh} {
		if vg := onegroup.Refreshed(t, client); vg.UUID != uuid || len(vg.LogicalVolumes) != 1 || vg.LogicalVolumes[0].Name != "guestdisk" {
			t.Errorf("%s sees %+v", name, vg)
		}
	}
	if _, err := fresh.Create(t.Context(), onegroup.Linear(onegroup.Ref("a"))); err != nil {
		t.Errorf("a volume with the name of the guest's: %v", err)
	}
	if err := c.Remove(t.Context(), disk.Ref); err != nil {
		t.Errorf("Remove of the guest's disk: %v", err)
	}
}

// Left by a command that somebody killed: a plain volume where a pool should be.
func TestPool_NameTakenByAnotherTypeIsLeftAlone(t *testing.T) {
	r := lvmtest.NewReal(t, disks(), lvm.Options{})
	r.AddGroup(t, "vgA", 4*mib, 1)
	c := r.Client(t, lvm.VolumeGroupSelector{Name: "vgA"})
	host(t, r, "lvcreate", "-y", "-Wn", "-Zn", "-l", "4", "-n", "tp0", "vgA")
	thin := lvm.CreateRequest{Ref: onegroup.Ref("a"), SegmentType: lvm.SegThin, ThinPool: "tp0", SizeBytes: 4 * mib}
	if _, err := c.Create(t.Context(), thin); err == nil {
		t.Error("a thin volume was made in a linear one")
	}
	if _, err := c.CreateThinPool(t.Context(), lvm.ThinPoolRequest{Ref: onegroup.Ref("tp0"), SizeBytes: 16 * mib}); !errors.Is(err, lvm.ErrExists) {
		t.Errorf("CreateThinPool: %v", err)
	}
	vg := onegroup.Refreshed(t, c)
	if lv, _ := vg.LogicalVolume("tp0"); len(vg.LogicalVolumes) != 1 || lv.SegmentType != lvm.SegLinear || lv.SizeBytes != 16*mib {
		t.Errorf("left: %+v", vg.LogicalVolumes)
	}
}

func lockFile(group string) string { return filepath.Join("/run/lock/lvm", "V_"+group) }
