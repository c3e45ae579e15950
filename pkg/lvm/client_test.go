package lvm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestClient_OneCommandForEachChange(t *testing.T) {
	b := newBed(t, nil)
	free := func() int64 { vg, _ := b.state(t).VolumeGroup("vgA"); return vg.FreeExtents }
	start := free()
	b.commands()
	for _, command := range []string{"lvremove", "lvchange"} {
		b.on(command, said())
	}
	lv, err := b.client.Create(t.Context(), linear("new", 10*mib, "b", "a"))
	if err != nil || lv.SizeBytes != 12*mib || lv.FootprintExtents != 3 || lv.Active {
		t.Fatalf("created %+v, %v", lv, err)
	}
	if got, _ := b.state(t).LogicalVolume(lv.Ref()); cmp.Diff(lv, got) != "" || free() != start-3 {
		t.Errorf("the state has %+v, %d free", got, free())
	}
	if lv, err = b.client.Extend(t.Context(), lv.Ref(), 20*mib); err != nil || lv.SizeBytes != 20*mib || free() != start-5 {
		t.Errorf("extended %+v, %v, %d free", lv, err, free())
	}
	if lv, err = b.client.Extend(t.Context(), lv.Ref(), 17*mib); err != nil || lv.SizeBytes != 20*mib {
		t.Errorf("not extended %+v, %v", lv, err)
	}
	if err := b.client.ChangeTags(t.Context(), lv.Ref(), []string{"c"}, []string{"b", "nosuch"}); err != nil {
		t.Error(err)
	}
	if got, _ := b.state(t).LogicalVolume(lv.Ref()); !slices.Equal(got.Tags, []string{"a", "c"}) {
		t.Errorf("tags %q", got.Tags)
	}
	if err := b.client.Rename(t.Context(), lv.Ref(), "newer"); err != nil {
		t.Error(err)
	}
	if err := b.client.Remove(t.Context(), Ref{"vgA", "newer"}); err != nil || free() != start {
		t.Errorf("removed: %v, %d free, %d at the start", err, free(), start)
	}
	want := []string{"lvcreate", "lvextend", "lvchange", "lvrename", "lvremove"}
	if diff := cmp.Diff(want, b.commands()); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

func TestClient_FilterHasJustTheDisksOfTheGroups(t *testing.T) {
	b := newBed(t, nil)
	b.state(t)
	filter := func() string {
		content, err := os.ReadFile(filepath.Join(b.dir, "lvm.conf"))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(content), "filter = [ ")
		line, _, _ := strings.Cut(rest, " ]")
		return line
	}
	if got, want := filter(), `"a|^/dev/ubdb$|", "a|^/dev/ubdc$|", "r|.*|"`; got != want {
		t.Errorf("filter %s, want %s", got, want)
	}
	if err := b.client.SetVolumeGroups([]VolumeGroupSelector{{Name: "vgB"}}); err != nil {
		t.Fatal(err)
	}
	state, err := b.client.Refresh(t.Context())
	if err != nil || len(state.VolumeGroups) != 1 || state.VolumeGroups[0].Name != "vgB" {
		t.Errorf("state %+v, %v", state, err)
	}
	if got, want := filter(), `"a|^/dev/ubdd$|", "r|.*|"`; got != want {
		t.Errorf("filter %s, want %s", got, want)
	}
}

func TestClient_DiskAddedByAnAdministratorIsNoticed(t *testing.T) {
	b := newBed(t, nil)
	b.state(t)
	b.commands()
	// The shell sees the new disk as missing, so its creation is refused; after
	// discovery all is well.
	b.on("lvcreate", refusal("Cannot change VG vgA while PVs are missing."), reply{})
	b.on("fullreport", reply{Report: recorded(t, "missing")}, reply{Report: recorded(t, "mixed")})
	b.discovery.on("pvs", disksOf(pvsRow{"/dev/ubdb", "vgA", uuidA}, pvsRow{"/dev/ubdc", "vgA", uuidA}, pvsRow{"/dev/ubde", "vgA", uuidA}))
	if _, err := b.client.Create(t.Context(), linear("new", mib)); err != nil {
		t.Fatal(err)
	}
	want := []string{"lvcreate", "fullreport", "pvs", "fullreport", "lvcreate"}
	if diff := cmp.Diff(want, b.commands()); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	content, err := os.ReadFile(filepath.Join(b.dir, "lvm.conf"))
	if err != nil || !strings.Contains(string(content), "/dev/ubde") {
		t.Errorf("the new disk is not in the filter (%v)", err)
	}
}

func TestClient_DiskThatIsReallyMissing(t *testing.T) {
	b := newBed(t, nil)
	b.state(t)
	b.on("fullreport", reply{Report: recorded(t, "missing")})
	b.on("lvcreate", refusal("Cannot change VG vgA while PVs are missing."))
	b.on("lvremove", reply{}) // the guard: nothing selected, no word, success
	b.on("lvchange", reply{})
	if _, err := b.client.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	state := b.state(t)
	if !errors.Is(state.Problems["vgA"], ErrPhysicalVolumeMissing) || len(state.VolumeGroups) != 1 {
		t.Errorf("problems %v, groups %d", state.Problems, len(state.VolumeGroups))
	}
	_, err := b.client.Create(t.Context(), linear("new", mib))
	for what, err := range map[string]error{
		"Create":     err,
		"Remove":     b.client.Remove(t.Context(), Ref{"vgA", "lin"}),
		"ChangeTags": b.client.ChangeTags(t.Context(), Ref{"vgA", "lin"}, []string{"x"}, nil),
	} {
		if !errors.Is(err, ErrPhysicalVolumeMissing) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestClient_UnreadableReportKeepsTheState(t *testing.T) {
	tests := map[string]reply{
		"failed with an empty report": {ExitCode: 5, Report: json.RawMessage(`[]`)},
		"no report":                   {},
		"cut off":                     {Raw: `{"report": [`, DieAfter: true},
		"died":                        {Die: true},
	}
	for name, bad := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nil)
			before := b.state(t)
			b.on("fullreport", bad)
			if _, err := b.client.Refresh(t.Context()); err == nil || errors.Is(err, ErrVolumeGroupMissing) {
				t.Errorf("got %v", err)
			}
			if after := b.state(t); after != before {
				t.Errorf("the state changed to %+v", after)
			}
			if err := b.client.Healthy(t.Context()); err == nil {
				t.Error("healthy")
			}
			b.on("fullreport", reply{Report: recorded(t, "mixed")})
			if err := b.client.Healthy(t.Context()); err != nil {
				t.Errorf("healthy again: %v", err)
			}
		})
	}
}

// A report that cannot be read is no sign that there is nothing: nothing is made
// or changed on the strength of it (lvmteam/lvm2#137, openebs/lvm-localpv#247).
func TestClient_UnreadableReportChangesNothing(t *testing.T) {
	b := newBed(t, nil)
	b.state(t)
	b.on("fullreport", reply{ExitCode: 5, Report: json.RawMessage(`[]`)})
	// Not known from before, so LVM is asked.
	unknown := Ref{"vgA", "unknown"}
	for what, err := range map[string]error{
		"Remove":     b.client.Remove(t.Context(), unknown),
		"ChangeTags": b.client.ChangeTags(t.Context(), unknown, []string{"x"}, nil),
	} {
		if err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrVolumeGroupMissing) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, line := range b.asked() {
		if line != "(start)" && !strings.HasPrefix(line, "fullreport") {
			t.Errorf("run: %s", line)
		}
	}
}

func TestClient_EmptyReportMeansTheGroupIsGone(t *testing.T) {
	b := newBed(t, nil)
	b.state(t)
	b.on("fullreport", reply{Report: recorded(t, "none")})
	b.discovery.on("pvs", disksOf())
	state, err := b.client.Refresh(t.Context())
	if err != nil || len(state.VolumeGroups) != 0 || !errors.Is(state.Problems["vgA"], ErrVolumeGroupMissing) {
		t.Errorf("got %+v, %v", state, err)
	}
	// A group of that name with another UUID is another group.
	b.discovery.on("pvs", disksOf(pvsRow{"/dev/ubdx", "vgA", "other"}))
	state, err = b.client.Refresh(t.Context())
	if err != nil || !errors.Is(state.Problems["vgA"], ErrVolumeGroupMissing) {
		t.Errorf("got %+v, %v", state, err)
	}
}

func TestClient_UnreadableDisksAreNotMissingGroups(t *testing.T) {
	b := newBed(t, func(o *Options) { o.VolumeGroups = []VolumeGroupSelector{{Name: "vgZ"}} })
	failed := disksOf(pvsRow{"/dev/ubdb", "vgA", uuidA})
	failed.ExitCode = 5
	b.discovery.on("pvs", failed)
	if _, err := b.client.Refresh(t.Context()); !errors.Is(err, ErrReport) {
		t.Errorf("got %v, want ErrReport", err)
	}
}

func TestClient_WaitingEndsWithTheContextAndReadsGoOn(t *testing.T) {
	b := newBed(t, nil)
	before := b.state(t)
	path, running := b.pipe("hang")
	b.on("lvcreate", reply{WaitFor: path}, reply{})
	done := make(chan error, 1)
	go func() {
		_, err := b.client.Create(context.WithoutCancel(t.Context()), linear("new", mib))
		done <- err
	}()
	release := running()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := b.client.Create(ctx, linear("other", mib))
	if !errors.Is(err, ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want ErrTimeout and DeadlineExceeded", err)
	}
	if _, err := b.client.Refresh(ctx); !errors.Is(err, ErrTimeout) {
		t.Errorf("Refresh: %v", err)
	}
	if b.state(t) != before {
		t.Error("the state changed")
	}
	closed := make(chan error, 1)
	go func() { closed <- b.client.Close() }()
	<-b.client.closing
	if _, err := b.client.Create(t.Context(), linear("late", mib)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Create while closing: %v", err)
	}
	select {
	case err := <-closed:
		t.Errorf("Close returned (%v) while a command was running", err)
	default:
	}
	release()
	if err := errors.Join(<-done, <-closed); err != nil {
		t.Error(err)
	}
	if got := strings.Join(b.asked(), "\n"); strings.Contains(got, "other") || strings.Contains(got, "late") {
		t.Errorf("commands that must not run were run:\n%s", got)
	}
}

func TestClient_TellsSubscribersOnlyOfChanges(t *testing.T) {
	b := newBed(t, nil)
	first := b.state(t)
	changes, cancel := b.client.Subscribe()
	second, err := b.client.Refresh(t.Context())
	if err != nil || second.Generation != first.Generation || !second.Taken.After(first.Taken) {
		t.Errorf("generation %d, then %d; %v", first.Generation, second.Generation, err)
	}
	select {
	case <-changes:
		t.Error("told of a report that said nothing new")
	default:
	}
	for i := range 3 {
		if _, err := b.client.Create(t.Context(), linear(fmt.Sprint("new", i), mib)); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.state(t).Generation; got != first.Generation+3 {
		t.Errorf("generation %d, want %d", got, first.Generation+3)
	}
	<-changes
	cancel()
}

func TestNewClient_Refuses(t *testing.T) {
	tests := map[string]Options{
		"no folder":            {},
		"a relative folder":    {RunDir: "run"},
		"a folder with quotes": {RunDir: "/run/\"x\""},
		"a group twice":        {RunDir: t.TempDir(), VolumeGroups: []VolumeGroupSelector{{Name: "a"}, {Name: "a"}}},
		"a group without name": {RunDir: t.TempDir(), VolumeGroups: []VolumeGroupSelector{{}}},
		"a group like a path":  {RunDir: t.TempDir(), VolumeGroups: []VolumeGroupSelector{{Name: "a/b"}}},
	}
	for name, opts := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := NewClient(opts); !errors.Is(err, ErrInvalid) {
				t.Errorf("got %v, want ErrInvalid", err)
			}
		})
	}
}

func TestClient_Deactivate(t *testing.T) {
	b := newBed(t, nil)
	b.state(t)
	str := Ref{"vgA", "str"}
	if err := b.client.Deactivate(t.Context(), str); err != nil {
		t.Fatal(err)
	}
	if lv, _ := b.state(t).LogicalVolume(str); lv.Active || lv.Major != -1 || lv.Minor != -1 {
		t.Errorf("still active: %+v", lv)
	}
}

// What somebody else made since the last report is found without a command that must fail.
func TestClient_LooksAgainBeforeItSaysNotFound(t *testing.T) {
	b := newBed(t, nil)
	b.state(t)
	b.on("fullreport", reply{Report: recorded(t, "empty")})
	if _, err := b.client.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.commands()
	if err := b.client.Deactivate(t.Context(), Ref{"vgA", "lin"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff([]string{"fullreport"}, b.commands()); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	b.on("fullreport", reply{Report: recorded(t, "mixed")})
	if err := b.client.Deactivate(t.Context(), Ref{"vgA", "lin"}); err != nil {
		t.Errorf("got %v", err)
	}
}

// A volume that was replaced by another one of its name is not the one that was meant.
func TestClient_NeverRemovesANamesake(t *testing.T) {
	b := newBed(t, nil)
	lin, _ := b.state(t).LogicalVolume(Ref{"vgA", "lin"})
	b.on("lvremove", reply{}) // LVM: no volume of that name and UUID
	namesake := strings.ReplaceAll(string(recorded(t, "mixed")), lin.UUID, strings.Repeat("x", len(lin.UUID)))
	b.on("fullreport", reply{Report: json.RawMessage(namesake)})
	if err := b.client.Remove(t.Context(), lin.Ref()); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	if got := strings.Count(strings.Join(b.asked(), "\n"), "lvremove"); got != 1 {
		t.Errorf("%d lvremove commands: %q", got, b.asked())
	}
}

func TestThinPoolRequest_Validate(t *testing.T) {
	tests := map[string]struct {
		req ThinPoolRequest
		ok  bool
	}{
		"default chunks": {ThinPoolRequest{SizeBytes: 1}, true},
		"large chunks":   {ThinPoolRequest{SizeBytes: 1, ChunkSizeBytes: 1 << 30}, true},
		"too large":      {ThinPoolRequest{SizeBytes: 1, ChunkSizeBytes: 1<<30 + 64<<10}, false},
		"odd chunks":     {ThinPoolRequest{SizeBytes: 1, ChunkSizeBytes: 65 << 10}, false},
		"no size":        {ThinPoolRequest{}, false},
		"bad tag":        {ThinPoolRequest{SizeBytes: 1, Tags: []string{""}}, false},
	}
	for name, test := range tests {
		test.req.Ref = Ref{"vg", "tp"}
		if err := test.req.Validate(); test.ok != (err == nil) || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, want ok %v", name, err, test.ok)
		}
	}
}

func TestClient_LVMDiesAfterARemoval(t *testing.T) {
	b := newBed(t, nil)
	b.state(t)
	b.on("lvremove", reply{Die: true})
	b.on("fullreport", reply{Report: recorded(t, "empty")})
	if err := b.client.Remove(t.Context(), Ref{"vgA", "lin"}); err != nil {
		t.Errorf("it is gone, but: %v", err)
	}
	b.on("fullreport", reply{Report: recorded(t, "mixed")})
	if err := b.client.Remove(t.Context(), Ref{"vgA", "lin"}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("it is there, but: %v", err)
	}
}

// The disks of vgA hold another group of that name now; discovery has not noticed.
func TestClient_GroupOfAnotherUUIDIsAnotherGroup(t *testing.T) {
	b := newBed(t, nil)
	b.state(t)
	other := strings.ReplaceAll(string(recorded(t, "mixed")), uuidA, strings.Repeat("x", len(uuidA)))
	b.on("fullreport", reply{Report: json.RawMessage(other)})
	state, err := b.client.Refresh(t.Context())
	if err != nil || len(state.VolumeGroups) != 0 || !errors.Is(state.Problems["vgA"], ErrVolumeGroupMissing) {
		t.Errorf("got %+v, %v", state, err)
	}
}
