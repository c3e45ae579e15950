package lvmfake_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
)

const mib = 1 << 20

func newLVM(t *testing.T, disks ...int64) *lvmfake.LVM {
	t.Helper()
	g := lvmfake.Group{Name: "vg"}
	for _, size := range disks {
		g.Disks = append(g.Disks, lvmfake.Disk{SizeBytes: size})
	}
	l, err := lvmfake.New(lvmfake.Options{DeviceDir: t.TempDir(), Groups: []lvmfake.Group{g}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func create(t *testing.T, l *lvmfake.LVM, req lvm.CreateRequest) lvm.LogicalVolume {
	t.Helper()
	if _, err := l.Create(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	lv, err := l.Activate(t.Context(), req.Ref)
	if err != nil {
		t.Fatal(err)
	}
	return lv
}

func ref(name string) lvm.Ref { return lvm.Ref{VolumeGroup: "vg", Name: name} }

// fakeFiles is blockdev.Device without care for what is there.
type fakeFiles struct{}

func (fakeFiles) SizeBytes(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (fakeFiles) ReadEnds(context.Context, string) error  { return nil }
func (fakeFiles) ClearEnds(context.Context, string) error { return nil }

func (f fakeFiles) Zero(_ context.Context, path string, _ bool, _ func(int64)) error {
	size, err := f.SizeBytes(path)
	return errors.Join(err, os.Truncate(path, 0), os.Truncate(path, size))
}

func fill(t *testing.T, path string, size int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(bytes.Repeat([]byte{0xA5}, int(size)), 0); err != nil {
		t.Fatal(err)
	}
}

func oldBytes(t *testing.T, path string) int {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(content, []byte{0xA5})
}

func TestMachine_FreedExtentsKeepTheirBytes(t *testing.T) {
	layouts := map[string]lvm.CreateRequest{
		"linear":  {Ref: ref("a"), SegmentType: lvm.SegLinear, SizeBytes: 24 * mib},
		"striped": {Ref: ref("a"), SegmentType: lvm.SegStriped, SizeBytes: 24 * mib, Stripes: 2},
		"raid1":   {Ref: ref("a"), SegmentType: lvm.SegRAID1, SizeBytes: 24 * mib, Stripes: 2},
	}
	for name, req := range layouts {
		t.Run(name, func(t *testing.T) {
			l := newLVM(t, 40*mib, 40*mib)
			lv := create(t, l, req)
			if n := oldBytes(t, lv.Path); n != 0 {
				t.Fatalf("a volume on new disks has %d old bytes", n)
			}
			fill(t, lv.Path, lv.SizeBytes)
			if err := l.Remove(t.Context(), req.Ref); err != nil {
				t.Fatal(err)
			}
			if again := create(t, l, req); oldBytes(t, again.Path) != int(again.SizeBytes) {
				t.Errorf("a volume on the same extents has %d old bytes, want %d", oldBytes(t, again.Path), again.SizeBytes)
			}
		})
	}
}

func TestMachine_ExtendedPartHasOldBytes(t *testing.T) {
	l := newLVM(t, 40*mib)
	lv := create(t, l, lvm.CreateRequest{Ref: ref("old"), SegmentType: lvm.SegLinear, SizeBytes: 40 * mib})
	fill(t, lv.Path, lv.SizeBytes)
	if err := l.Remove(t.Context(), lv.Ref()); err != nil {
		t.Fatal(err)
	}
	lv = create(t, l, lvm.CreateRequest{Ref: ref("new"), SegmentType: lvm.SegLinear, SizeBytes: 8 * mib})
	if err := l.Devices(fakeFiles{}).Zero(t.Context(), lv.Path, false, nil); err != nil {
		t.Fatal(err)
	}
	lv, err := l.Extend(t.Context(), lv.Ref(), 20*mib)
	if err != nil {
		t.Fatal(err)
	}
	if n := oldBytes(t, lv.Path); n != 12*mib {
		t.Errorf("%d old bytes, want those of the 12 MiB that came in", n)
	}
}

func TestMachine_RebootKeepsBytesAndTakesNodesAway(t *testing.T) {
	l := newLVM(t, 40*mib)
	lv := create(t, l, lvm.CreateRequest{Ref: ref("a"), SegmentType: lvm.SegLinear, SizeBytes: 8 * mib, Tags: []string{"x"}})
	fill(t, lv.Path, lv.SizeBytes)
	if err := l.Machine().Reboot(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(lv.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("device node after a reboot: %v", err)
	}
	after, err := lvmfake.New(lvmfake.Options{Machine: l.Machine(), VolumeGroups: []lvm.VolumeGroupSelector{{Name: "vg"}}})
	if err != nil {
		t.Fatal(err)
	}
	state, err := after.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if found, _ := state.LogicalVolume(lv.Ref()); found.Active || found.Major != -1 || len(found.Tags) != 1 {
		t.Errorf("after a reboot: %+v", found)
	}
	if lv, err = after.Activate(t.Context(), lv.Ref()); err != nil {
		t.Fatal(err)
	}
	if n := oldBytes(t, lv.Path); n != 8*mib {
		t.Errorf("%d bytes left of %d", n, 8*mib)
	}
}

func TestDevices_CheckTellsDevicesApart(t *testing.T) {
	l := newLVM(t, 40*mib)
	a := create(t, l, lvm.CreateRequest{Ref: ref("a"), SegmentType: lvm.SegLinear, SizeBytes: 8 * mib})
	b := create(t, l, lvm.CreateRequest{Ref: ref("b"), SegmentType: lvm.SegLinear, SizeBytes: 8 * mib})
	d := l.Devices(fakeFiles{})
	if err := d.Check(a.Path, a.Major, a.Minor); err != nil {
		t.Error(err)
	}
	if err := d.Check(a.Path, b.Major, b.Minor); !errors.Is(err, lvmfake.ErrWrongDevice) {
		t.Errorf("Check() of another volume's device = %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Check(file, a.Major, a.Minor); !errors.Is(err, lvmfake.ErrNoDevice) {
		t.Errorf("Check() of a file = %v", err)
	}
}

func TestLVM_CrashCutsEveryLaterEffect(t *testing.T) {
	l := newLVM(t, 40*mib)
	crash := lvmfake.Call{Op: lvmfake.OpCreate, Phase: lvmfake.After}
	l.SetHook(func(_ context.Context, c lvmfake.Call) error {
		if c.Op == crash.Op && c.Phase == crash.Phase {
			return lvmfake.ErrCrash
		}
		return nil
	})
	req := lvm.CreateRequest{Ref: ref("a"), SegmentType: lvm.SegLinear, SizeBytes: 8 * mib}
	if _, err := l.Create(t.Context(), req); !errors.Is(err, lvm.ErrUnavailable) || !l.Crashed() {
		t.Fatalf("Create() = %v", err)
	}
	if err := l.Remove(t.Context(), req.Ref); !errors.Is(err, lvm.ErrUnavailable) {
		t.Errorf("Remove() after the crash = %v", err)
	}
	after, err := lvmfake.New(lvmfake.Options{Machine: l.Machine(), VolumeGroups: []lvm.VolumeGroupSelector{{Name: "vg"}}})
	if err != nil {
		t.Fatal(err)
	}
	state, err := after.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := state.LogicalVolume(req.Ref); !ok {
		t.Error("what was done before the crash is lost")
	}
}

func TestDevices_CrashHalfwayLeavesTheSecondHalf(t *testing.T) {
	l := newLVM(t, 40*mib)
	lv := create(t, l, lvm.CreateRequest{Ref: ref("a"), SegmentType: lvm.SegLinear, SizeBytes: 8 * mib})
	fill(t, lv.Path, lv.SizeBytes)
	l.SetHook(func(_ context.Context, c lvmfake.Call) error {
		if c.Op == lvmfake.OpZero && c.Phase == lvmfake.Halfway && c.Ref == lv.Ref() {
			return lvmfake.ErrCrash
		}
		return nil
	})
	if err := l.Devices(fakeFiles{}).Zero(t.Context(), lv.Path, false, nil); !errors.Is(err, lvm.ErrUnavailable) {
		t.Fatalf("Zero() = %v", err)
	}
	if n := oldBytes(t, lv.Path); n != 4*mib {
		t.Errorf("%d old bytes left, want half", n)
	}
}

func TestLVM_HangingCommandTimesOthersOut(t *testing.T) {
	l := newLVM(t, 40*mib)
	entered, release := make(chan struct{}), make(chan struct{})
	l.SetHook(func(_ context.Context, c lvmfake.Call) error {
		if c.Op == lvmfake.OpCreate && c.Phase == lvmfake.Before {
			close(entered)
			<-release
		}
		return nil
	})
	created := make(chan error, 1)
	go func() {
		_, err := l.Create(t.Context(), lvm.CreateRequest{Ref: ref("a"), SegmentType: lvm.SegLinear, SizeBytes: 8 * mib})
		created <- err
	}()
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Remove(ctx, ref("a")); !errors.Is(err, lvm.ErrTimeout) || !errors.Is(err, context.Canceled) {
		t.Errorf("Remove() behind a hanging command = %v", err)
	}
	if _, err := l.State(t.Context()); err != nil {
		t.Errorf("State() behind a hanging command = %v", err)
	}
	close(release)
	if err := <-created; err != nil {
		t.Error(err)
	}
}
