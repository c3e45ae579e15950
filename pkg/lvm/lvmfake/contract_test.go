package lvmfake_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
	"github.com/csi-local/csi-local/pkg/lvm/lvmtest"
)

func TestContract(t *testing.T) {
	lvmtest.Run(t, func(t *testing.T) lvmtest.Machine {
		return &fakeMachine{machine: lvmfake.NewMachine(t.TempDir())}
	})
}

// fakeMachine plays the administrator on a lvmfake.Machine.
type fakeMachine struct {
	machine *lvmfake.Machine
	disks   int
}

func (m *fakeMachine) NewClient(t *testing.T, groups ...lvm.VolumeGroupSelector) lvmtest.Client {
	t.Helper()
	return m.client(t, groups...)
}

func (m *fakeMachine) client(t *testing.T, groups ...lvm.VolumeGroupSelector) *lvmfake.LVM {
	t.Helper()
	l, err := lvmfake.New(lvmfake.Options{Machine: m.machine, VolumeGroups: groups})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// byHand is a client of its own, as another process.
func (m *fakeMachine) byHand(t *testing.T, ref lvm.Ref) *lvmfake.LVM {
	t.Helper()
	return m.client(t, lvm.VolumeGroupSelector{Name: ref.VolumeGroup})
}

func (m *fakeMachine) AddGroup(t *testing.T, name string, extentSizeBytes int64, disks int) string {
	t.Helper()
	g := lvmfake.Group{Name: name, ExtentSizeBytes: extentSizeBytes}
	for range disks {
		m.disks++
		g.Disks = append(g.Disks, lvmfake.Disk{Device: fmt.Sprintf("/dev/fake%d", m.disks), SizeBytes: 255 * mib})
	}
	uuid, err := m.machine.AddGroup(g)
	must(t, err)
	return uuid
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func (m *fakeMachine) Empty(t *testing.T, group string) {
	t.Helper()
	must(t, m.machine.Empty(group))
}

func (m *fakeMachine) LimitVolumes(t *testing.T, group string, count int64) {
	t.Helper()
	must(t, m.machine.LimitVolumes(group, count))
}

func (m *fakeMachine) Hold(t *testing.T, lv lvm.LogicalVolume) (release func()) {
	t.Helper()
	must(t, m.machine.SetOpen(lv.Ref(), 1))
	return func() { must(t, m.machine.SetOpen(lv.Ref(), 0)) }
}

func (m *fakeMachine) Mount(t *testing.T, lv lvm.LogicalVolume) (unmount func()) {
	t.Helper()
	return m.Hold(t, lv)
}

func (m *fakeMachine) Snapshot(t *testing.T, origin lvm.Ref, name string, sizeBytes int64) {
	t.Helper()
	must(t, m.machine.Snapshot(origin, name, sizeBytes))
}

func (m *fakeMachine) Create(t *testing.T, ref lvm.Ref, sizeBytes int64) {
	t.Helper()
	_, err := m.byHand(t, ref).Create(t.Context(), lvm.CreateRequest{Ref: ref, SegmentType: lvm.SegLinear, SizeBytes: sizeBytes})
	must(t, err)
}

func (m *fakeMachine) Tag(t *testing.T, ref lvm.Ref, tag string) {
	t.Helper()
	must(t, m.byHand(t, ref).ChangeTags(t.Context(), ref, []string{tag}, nil))
}

func (m *fakeMachine) Remove(t *testing.T, ref lvm.Ref) {
	t.Helper()
	must(t, m.byHand(t, ref).Remove(t.Context(), ref))
}

func (m *fakeMachine) FillPool(t *testing.T, pool, _ lvm.LogicalVolume) {
	t.Helper()
	must(t, m.machine.SetPoolHealth(pool.Ref(), lvmfake.PoolHealth{DataPercent: 100, MetadataPercent: 20, Health: "out_of_data"}))
}

func (m *fakeMachine) DamagePool(t *testing.T, pool lvm.LogicalVolume) {
	t.Helper()
	must(t, m.machine.SetPoolHealth(pool.Ref(), lvmfake.PoolHealth{NeedsCheck: true}))
}

func (m *fakeMachine) PullDisk(t *testing.T, group string) (putBack func()) {
	t.Helper()
	device := fmt.Sprintf("/dev/fake%d", m.disks)
	must(t, m.machine.SetDiskMissing(group, device, true))
	return func() { must(t, m.machine.SetDiskMissing(group, device, false)) }
}
