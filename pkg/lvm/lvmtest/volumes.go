package lvmtest

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/csi-local/csi-local/pkg/lvm"
)

func volumeCases() []bedCase {
	return []bedCase{
		{"Create_RoundsUpAndTellsTheTruth", createRounds},
		{"Create_TakesEveryNameThatLVMTakes", createNames},
		{"Create_SetsTags", createTags},
		{"Extend_RoundsUpAndNeverShrinks", extendRounds},
		{"Extend_AnActiveVolume", extendActive},
		{"Activate_MakesTheNode", activate},
		{"ChangeTags_AddsAndRemoves", changeTags},
		{"Rename_KeepsTheVolume", rename},
		{"Remove_GivesEveryExtentBack", remove},
		{"EachChange_IsQuick", eachIsQuick},
	}
}

// layoutCase is a request and what must come of it, in extents of 4 MiB.
type layoutCase struct {
	name      string
	segment   string
	stripes   int
	stripe    int64
	bytes     int64
	extents   int64
	footprint int64
}

func layouts() []layoutCase {
	return []layoutCase{
		{"one-byte", lvm.SegLinear, 0, 0, 1, 1, 1},
		{"no-multiple-of-a-sector", lvm.SegLinear, 0, 0, 511, 1, 1},
		{"exact", lvm.SegLinear, 0, 0, 8 * mib, 2, 2},
		{"one-more", lvm.SegLinear, 0, 0, 8*mib + 1, 3, 3},
		{"two-stripes", lvm.SegStriped, 2, 0, 10 * mib, 4, 4},
		{"two-exact-stripes", lvm.SegStriped, 2, 64 << 10, 16 * mib, 4, 4},
		{"three-stripes", lvm.SegStriped, 3, 4 << 10, 4*mib + 1, 3, 3},
		{"four-stripes", lvm.SegStriped, 4, 4 * mib, 17 * mib, 8, 8},
		{"mirror", lvm.SegRAID1, 2, 0, 10 * mib, 3, 8},
		{"three-copies", lvm.SegRAID1, 3, 0, 1, 1, 6},
	}
}

// someLayouts are one of each kind, for cases that take long on real LVM.
func someLayouts() []layoutCase {
	return slices.DeleteFunc(layouts(), func(c layoutCase) bool {
		return !slices.Contains([]string{"one-more", "two-stripes", "mirror"}, c.name)
	})
}

func (c layoutCase) request(b *bed) lvm.CreateRequest {
	return lvm.CreateRequest{
		Ref: b.ref(c.name), SegmentType: c.segment, SizeBytes: c.bytes, Stripes: c.stripes, StripeSizeBytes: c.stripe,
		Tags: []string{"b", "a"},
	}
}

func (c layoutCase) volume(b *bed) lvm.LogicalVolume {
	return lvm.LogicalVolume{
		VolumeGroup: b.group, Name: c.name, SegmentType: c.segment, SizeBytes: c.extents * b.extent,
		FootprintExtents: c.footprint, Stripes: max(1, c.stripes), Tags: []string{"a", "b"},
		Major: -1, Minor: -1, DataPercent: -1, MetadataPercent: -1,
	}
}

// whatLVMChooses differs between machines.
var whatLVMChooses = cmpopts.IgnoreFields(lvm.LogicalVolume{}, "UUID", "Path")

// whatUdevDoes, where it runs, is to open a device for a moment when it comes, and
// when somebody has written to it.
var whatUdevDoes = cmpopts.IgnoreFields(lvm.LogicalVolume{}, "Open")

func createRounds(t *testing.T, b *bed) {
	for _, c := range layouts() {
		t.Run(c.name, func(t *testing.T) {
			free := b.refreshed(t).FreeExtents
			want := c.volume(b)
			returned := b.create(t, c.request(b))
			known, _ := b.known(t, want.Ref())
			vg := b.refreshed(t)
			reported, _ := vg.LogicalVolume(c.name)
			for source, got := range map[string]lvm.LogicalVolume{"Create": returned, "State": known, "Refresh": reported} {
				if diff := cmp.Diff(want, got, whatLVMChooses); diff != "" {
					t.Errorf("%s: -want +got\n%s", source, diff)
				}
			}
			if reported.UUID == "" || reported.Path == "" || reported.Path != returned.Path {
				t.Errorf("UUID %q, path %q, at first %q", reported.UUID, reported.Path, returned.Path)
			}
			if taken := free - vg.FreeExtents; taken != c.footprint {
				t.Errorf("it takes %d extents, want %d", taken, c.footprint)
			}
		})
	}
}

func createTags(t *testing.T, b *bed) {
	req := b.linear("a", 1)
	req.Tags = []string{"csi-local/state=new", "_+.-/=!:&#", "z", longTag()}
	want := slices.Sorted(slices.Values(req.Tags))
	if diff := cmp.Diff(want, b.create(t, req).Tags); diff != "" {
		t.Errorf("Create: -want +got\n%s", diff)
	}
	lv, _ := b.refreshed(t).LogicalVolume("a")
	slices.Sort(lv.Tags)
	if diff := cmp.Diff(want, lv.Tags); diff != "" {
		t.Errorf("LVM: -want +got\n%s", diff)
	}
}

// longTag has LVM's greatest length.
func longTag() string {
	tag := make([]byte, 1024)
	for i := range tag {
		tag[i] = 'a'
	}
	return string(tag)
}

func extendRounds(t *testing.T, b *bed) {
	for _, c := range someLayouts() {
		t.Run(c.name, func(t *testing.T) {
			small := b.create(t, c.request(b))
			for _, enough := range []int64{1, small.SizeBytes - 1, small.SizeBytes} {
				if lv, err := b.client.Extend(t.Context(), small.Ref(), enough); err != nil || lv.SizeBytes != small.SizeBytes {
					t.Errorf("Extend to %d of %d: %d, %v", enough, small.SizeBytes, lv.SizeBytes, err)
				}
			}
			unit := b.extent
			if c.segment == lvm.SegStriped {
				unit *= int64(c.stripes)
			}
			got, err := b.client.Extend(t.Context(), small.Ref(), small.SizeBytes+1)
			if err != nil {
				t.Fatal(err)
			}
			want := c.volume(b)
			want.SizeBytes += unit
			want.FootprintExtents += unit / b.extent
			if c.segment == lvm.SegRAID1 {
				want.FootprintExtents += int64(c.stripes - 1)
			}
			reported, _ := b.refreshed(t).LogicalVolume(c.name)
			for source, lv := range map[string]lvm.LogicalVolume{"Extend": got, "Refresh": reported} {
				if diff := cmp.Diff(want, lv, whatLVMChooses); diff != "" {
					t.Errorf("%s: -want +got\n%s", source, diff)
				}
			}
		})
	}
}

func extendActive(t *testing.T, b *bed) {
	for _, c := range []layoutCase{
		{"linear", lvm.SegLinear, 0, 0, 8 * mib, 2, 2},
		{"striped", lvm.SegStriped, 2, 0, 8 * mib, 2, 2},
		{"raid1", lvm.SegRAID1, 2, 0, 8 * mib, 2, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			lv := b.active(t, c.request(b))
			writeAt(t, lv.Path, "kept", 1*mib)
			release := b.machine.Hold(t, lv)
			defer release()
			lv, err := b.client.Extend(t.Context(), lv.Ref(), 24*mib)
			if err != nil {
				t.Fatal(err)
			}
			if size := deviceSize(t, lv.Path); !lv.Active || size != 24*mib || lv.SizeBytes != size {
				t.Errorf("device of %d bytes, volume %+v", size, lv)
			}
			if got := readAt(t, lv.Path, 4, 1*mib); got != "kept" {
				t.Errorf("after Extend the device has %q", got)
			}
		})
	}
}

func activate(t *testing.T, b *bed) {
	lv := b.create(t, b.linear("a-b", 8*mib))
	if _, err := os.Stat(lv.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a node before Activate: %v", err)
	}
	first, err := b.client.Activate(t.Context(), lv.Ref())
	if err != nil {
		t.Fatal(err)
	}
	if size := deviceSize(t, first.Path); size != 8*mib {
		t.Errorf("device of %d bytes", size)
	}
	again, err := b.client.Activate(t.Context(), lv.Ref())
	if err != nil {
		t.Fatal(err)
	}
	reported, _ := b.refreshed(t).LogicalVolume("a-b")
	for source, got := range map[string]lvm.LogicalVolume{"Activate": first, "second Activate": again, "Refresh": reported} {
		if !got.Active || got.Major <= 0 || got.Minor < 0 || got.Major != first.Major || got.Minor != first.Minor {
			t.Errorf("%s: %+v", source, got)
		}
	}
	for range 2 {
		if err := b.client.Deactivate(t.Context(), lv.Ref()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(lv.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a node after Deactivate: %v", err)
	}
	known, _ := b.known(t, lv.Ref())
	reported, _ = b.refreshed(t).LogicalVolume("a-b")
	if diff := cmp.Diff(reported, known, cmpopts.IgnoreFields(lvm.LogicalVolume{}, "UUID")); diff != "" || known.Active || known.Major != -1 {
		t.Errorf("after Deactivate: -reported +known\n%s", diff)
	}
}

func changeTags(t *testing.T, b *bed) {
	lv := b.create(t, b.linear("a", 1))
	for _, step := range []struct{ add, remove, want []string }{
		{[]string{"x", "y"}, nil, []string{"x", "y"}},
		{[]string{"x"}, nil, []string{"x", "y"}},
		{nil, []string{"nothing"}, []string{"x", "y"}},
		{[]string{"fs=ext4", "state=used"}, []string{"x"}, []string{"fs=ext4", "state=used", "y"}},
		{nil, []string{"fs=ext4", "state=used", "y"}, nil},
	} {
		if err := b.client.ChangeTags(t.Context(), lv.Ref(), step.add, step.remove); err != nil {
			t.Fatalf("+%v -%v: %v", step.add, step.remove, err)
		}
		// It is so already, and there is no snapshot.
		if err := b.client.ChangeTagsUnlessOrigin(t.Context(), lv.Ref(), step.add, step.remove); err != nil {
			t.Fatalf("again +%v -%v: %v", step.add, step.remove, err)
		}
		known, _ := b.known(t, lv.Ref())
		reported, _ := b.refreshed(t).LogicalVolume("a")
		slices.Sort(reported.Tags)
		for source, got := range map[string][]string{"State": known.Tags, "Refresh": reported.Tags} {
			if diff := cmp.Diff(step.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("+%v -%v: %s: -want +got\n%s", step.add, step.remove, source, diff)
			}
		}
	}
}

func rename(t *testing.T, b *bed) {
	lv := b.active(t, b.linear("old", 8*mib))
	writeAt(t, lv.Path, "kept", 0)
	if err := b.client.Rename(t.Context(), lv.Ref(), "new"); err != nil {
		t.Fatal(err)
	}
	if _, ok := b.known(t, lv.Ref()); ok {
		t.Error("the old name is still known")
	}
	known, _ := b.known(t, b.ref("new"))
	reported, _ := b.refreshed(t).LogicalVolume("new")
	if diff := cmp.Diff(reported, known, cmpopts.IgnoreFields(lvm.LogicalVolume{}, "UUID"), whatUdevDoes); diff != "" || reported.UUID != lv.UUID && lv.UUID != "" {
		t.Errorf("-reported +known\n%s", diff)
	}
	if got := readAt(t, reported.Path, 4, 0); got != "kept" {
		t.Errorf("the renamed device has %q", got)
	}
}

func remove(t *testing.T, b *bed) {
	free := b.refreshed(t).FreeExtents
	for _, c := range someLayouts() {
		for _, prepare := range []func(*testing.T, lvm.CreateRequest) lvm.LogicalVolume{b.create, b.active} {
			lv := prepare(t, c.request(b))
			if err := b.client.Remove(t.Context(), lv.Ref()); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if err := b.client.Remove(t.Context(), lv.Ref()); !errors.Is(err, lvm.ErrNotFound) {
				t.Errorf("%s: second Remove = %v", c.name, err)
			}
			if _, err := os.Stat(lv.Path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: a node after Remove: %v", c.name, err)
			}
			state, err := b.client.State(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if vg, _ := state.VolumeGroup(b.group); vg.FreeExtents != free {
				t.Errorf("%s: %d free extents after Remove, %d before Create", c.name, vg.FreeExtents, free)
			}
		}
	}
	if now := b.refreshed(t).FreeExtents; now != free {
		t.Errorf("%d free extents in the end, %d at first", now, free)
	}
}

func deviceSize(t *testing.T, path string) int64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		t.Fatal(err)
	}
	return size
}

func writeAt(t *testing.T, path, content string, offset int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte(content), offset)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func readAt(t *testing.T, path string, n int, offset int64) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	content := make([]byte, n)
	if _, err := f.ReadAt(content, offset); err != nil {
		t.Fatal(err)
	}
	return string(content)
}
