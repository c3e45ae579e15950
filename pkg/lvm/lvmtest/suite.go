package lvmtest

import (
	"testing"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// disksOfBed is how many disks the shared volume group has.
const disksOfBed = 4

// MinDisks is how many unused disks a [Machine] needs.
const MinDisks = disksOfBed + 1

// Run runs the whole suite. open returns a machine with at least MinDisks unused disks;
// what the test before it made is gone.
func Run(t *testing.T, open func(t *testing.T) Machine) {
	t.Run("Volumes", func(t *testing.T) { runOnBed(t, open, volumeCases()) })
	t.Run("Errors", func(t *testing.T) { runOnBed(t, open, errorCases()) })
	t.Run("Thin", func(t *testing.T) { runOnBed(t, open, thinCases()) })
	t.Run("Others", func(t *testing.T) { runOnBed(t, open, otherCases()) })
	for _, c := range groupCases() {
		t.Run("Groups/"+c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

// bedCase is a case that has the shared volume group for itself.
type bedCase struct {
	name string
	run  func(t *testing.T, b *bed)
}

// groupCase is a case that makes its own volume groups.
type groupCase struct {
	name string
	run  func(t *testing.T, m Machine)
}

func runOnBed(t *testing.T, open func(t *testing.T) Machine, cases []bedCase) {
	m := open(t)
	b := &bed{machine: m, group: "vgA", extent: 4 * mib}
	m.AddGroup(t, b.group, b.extent, disksOfBed)
	b.client = m.NewClient(t, lvm.VolumeGroupSelector{Name: b.group})
	before := b.refreshed(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.run(t, b)
			m.Empty(t, b.group)
			after := b.refreshed(t)
			if after.FreeExtents != before.FreeExtents || len(after.LogicalVolumes) != 0 {
				t.Errorf("emptied, the group has %d free extents of %d and volumes %v",
					after.FreeExtents, before.FreeExtents, after.LogicalVolumes)
			}
		})
	}
}
