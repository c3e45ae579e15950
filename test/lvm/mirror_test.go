package lvm

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmtest"
)

// The copies of a mirror share no disk, however uneven the free space is: the
// loss of one disk must leave one whole copy. Where that cannot be had there is
// no volume, and no growth.
func TestMirror_CopiesShareNoDisk(t *testing.T) {
	r := lvmtest.NewReal(t, disks(), lvm.Options{})
	r.AddGroup(t, "vgA", 4*mib, 3)
	c := r.NewClient(t, lvm.VolumeGroupSelector{Name: "vgA"})
	// Leave 20, 20 and 60 extents free.
	fields := strings.Fields(r.Admin(t, "pvs", "--noheadings", "-o", "pv_name,pv_pe_count", "-S", "vg_name=vgA"))
	for i, keep := range []int{20, 20, 60} {
		disk := fields[2*i]
		free, err := strconv.Atoi(fields[2*i+1])
		if err != nil {
			t.Fatal(err)
		}
		r.Admin(t, "lvcreate", "-y", "-Zn", "-Wn", "-n", fmt.Sprint("filler", i), "-l", fmt.Sprint(free-keep), "vgA", disk)
	}
	ref := lvm.Ref{VolumeGroup: "vgA", Name: "mirror"}
	_, err := c.Create(t.Context(), lvm.CreateRequest{Ref: ref, SegmentType: lvm.SegRAID1, Stripes: 2, SizeBytes: 30 * 4 * mib})
	if !errors.Is(err, lvm.ErrNoSpace) {
		t.Errorf("copies of 30 extents on disks with 20, 20 and 60 free: %v, want ErrNoSpace", err)
	}
	if _, err := c.Create(t.Context(), lvm.CreateRequest{Ref: ref, SegmentType: lvm.SegRAID1, Stripes: 2, SizeBytes: 10 * 4 * mib}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Extend(t.Context(), ref, 19*4*mib); err != nil {
		t.Errorf("growth for which each copy's disk has room: %v", err)
	}
	if _, err := c.Extend(t.Context(), ref, 30*4*mib); !errors.Is(err, lvm.ErrNoSpace) {
		t.Errorf("growth beyond a copy's disk: %v, want ErrNoSpace", err)
	}
	copies := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(r.Admin(t, "lvs", "-a", "--noheadings", "--separator", ";", "-o", "lv_name,devices", "vgA")), "\n") {
		name, devices, _ := strings.Cut(strings.TrimSpace(line), ";")
		name = strings.Trim(name, "[]")
		if !strings.HasPrefix(name, "mirror_r") {
			continue
		}
		copyName := name[len(name)-1:] // of data and metadata alike
		for _, device := range strings.Split(devices, ",") {
			disk, _, _ := strings.Cut(device, "(")
			if other, taken := copies[disk]; taken && other != copyName {
				t.Errorf("%s lies on %s, where another copy is", name, disk)
			}
			copies[disk] = copyName
		}
	}
	if len(copies) != 2 {
		t.Errorf("two copies lie on %v, want a disk each", copies)
	}
}
