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
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// bed is a client whose lvm is the fake of fake_lvm_test.go.
type bed struct {
	fakeDir   // what the shell is asked
	discovery fakeDir
	client    *Client
	mu        sync.Mutex
	stats     []CommandStats
}

const (
	uuidA = "XOf0kW-RKB6-wZkg-gVgs-3I0a-04Ng-fhHiUh" // vgA in testdata/fullreport/mixed.json
	uuidB = "xOxEew-fjmJ-hC1d-nreL-ecPE-qKm5-1Qu7N2"
)

func disksOf(rows ...pvsRow) reply {
	content, err := json.Marshal([]map[string][]pvsRow{{"pv": rows}})
	if err != nil {
		panic(err) // a test's own constant
	}
	return reply{Report: content}
}

func newBed(t *testing.T, edit func(*Options)) *bed {
	t.Helper()
	b := &bed{fakeDir: newFakeDir(t)}
	b.discovery = fakeDir{t: t, dir: filepath.Join(b.dir, "discovery")}
	if err := os.Mkdir(b.discovery.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	b.on("fullreport", reply{Report: recorded(t, "mixed")})
	b.discovery.on("pvs", disksOf(pvsRow{"/dev/ubdb", "vgA", uuidA}, pvsRow{"/dev/ubdc", "vgA", uuidA}, pvsRow{"/dev/ubdd", "vgB", uuidB},
		pvsRow{"/dev/other", "vgC", "C"}, pvsRow{"/dev/none", "", ""}))
	opts := Options{
		VolumeGroups: []VolumeGroupSelector{{Name: "vgA"}}, RunDir: b.dir, LVMPath: b.environment().lvmPath,
		RefreshDelay: time.Hour, RefreshInterval: time.Hour,
		Observe: func(s CommandStats) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.stats = append(b.stats, s)
		},
	}
	if edit != nil {
		edit(&opts)
	}
	var err error
	if b.client, err = NewClient(opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.client.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// commands are those that were run since the last call.
func (b *bed) commands() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, s := range b.stats {
		out = append(out, s.Command)
	}
	b.stats = nil
	return out
}

func (b *bed) state(t *testing.T) *State {
	t.Helper()
	s, err := b.client.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func linear(name string, sizeBytes int64, tags ...string) CreateRequest {
	return CreateRequest{Ref: Ref{"vgA", name}, SegmentType: SegLinear, SizeBytes: sizeBytes, Tags: tags}
}

// said is what LVM logs about an object that it changed.
func said() reply { return reply{Log: []LogEntry{{Type: "print", Message: "changed."}}} }

func refusal(words string) reply {
	return reply{ExitCode: 5, Log: []LogEntry{{Type: "error", ObjectType: "vg", Message: words}}}
}

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

func TestClient_Errors(t *testing.T) {
	lin, nosuch := Ref{"vgA", "lin"}, Ref{"vgA", "nosuch"}
	thin := func(name, pool string) CreateRequest {
		return CreateRequest{Ref: Ref{"vgA", name}, SegmentType: SegThin, ThinPool: pool, SizeBytes: mib}
	}
	striped := CreateRequest{Ref: Ref{"vgA", "new"}, SegmentType: SegStriped, Stripes: 3, SizeBytes: mib}
	create := func(req CreateRequest) func(context.Context, *Client) error {
		return func(ctx context.Context, c *Client) error { _, err := c.Create(ctx, req); return err }
	}
	tests := map[string]struct {
		replies map[string]reply
		call    func(context.Context, *Client) error
		want    error
	}{
		"no space": {
			map[string]reply{"lvcreate": refusal("words never heard")}, create(linear("new", 4096*mib)), ErrNoSpace,
		},
		"no space on distinct disks": {
			map[string]reply{"lvcreate": refusal("Insufficient suitable allocatable extents for logical volume new: 3 more required")},
			create(linear("new", mib)), ErrNoSpace,
		},
		"more stripes than disks": {map[string]reply{"lvcreate": refusal("words never heard")}, create(striped), ErrNoSpace},
		"exists":                  {map[string]reply{"lvcreate": refusal("words never heard")}, create(linear("lin", mib)), ErrExists},
		"no pool":                 {map[string]reply{"lvcreate": refusal("words never heard")}, create(thin("new", "nosuch")), ErrNotFound},
		"no thin pool":            {map[string]reply{"lvcreate": refusal("words never heard")}, create(thin("new", "lin")), ErrNotFound},
		"pool full": {
			map[string]reply{"lvcreate": refusal("Cannot create new thin volume, free space in thin pool vgA/tp reached threshold.")},
			create(thin("new", "tp")), ErrThinPoolFull,
		},
		"refused for reasons unknown": {map[string]reply{"lvcreate": refusal("words never heard")}, create(linear("new", mib)), ErrFailed},
		"command line refused":        {map[string]reply{"lvcreate": {ExitCode: 3}}, create(linear("new", mib)), ErrInvalid},
		"lvm dies":                    {map[string]reply{"lvcreate": {Die: true}}, create(linear("new", mib)), ErrUnavailable},
		"lvm babbles":                 {map[string]reply{"lvcreate": {Raw: "}{\n"}}, create(linear("new", mib)), ErrUnavailable},
		"lvm babbles afterwards": {
			map[string]reply{"lvcreate": {ExitCode: 5}, "fullreport": {ExitCode: 5}}, create(linear("new", mib)), ErrUnavailable,
		},
		"remove what is not there": {
			map[string]reply{"lvremove": {}}, func(ctx context.Context, c *Client) error { return c.Remove(ctx, nosuch) }, ErrNotFound,
		},
		"remove what is open": {
			map[string]reply{"lvremove": refusal("words never heard"), "fullreport": {Report: recorded(t, "open")}},
			func(ctx context.Context, c *Client) error { return c.Remove(ctx, Ref{"vgA", "str"}) }, ErrInUse,
		},
		"remove an origin": {
			map[string]reply{"lvremove": {}},
			func(ctx context.Context, c *Client) error { return c.Remove(ctx, Ref{"vgA", "org"}) }, ErrInUse,
		},
		"remove without effect": {
			map[string]reply{"lvremove": {}}, func(ctx context.Context, c *Client) error { return c.Remove(ctx, lin) }, ErrFailed,
		},
		"rename to a name that is taken": {
			map[string]reply{"lvrename": refusal("words never heard")},
			func(ctx context.Context, c *Client) error { return c.Rename(ctx, lin, "str") }, ErrExists,
		},
		"activate what is not there": {
			map[string]reply{"lvchange": refusal("words never heard")},
			func(ctx context.Context, c *Client) error { _, err := c.Activate(ctx, nosuch); return err }, ErrNotFound,
		},
		"another group": {
			nil, func(ctx context.Context, c *Client) error { return c.Remove(ctx, Ref{"vgB", "lin"}) }, ErrVolumeGroupMissing,
		},
		"a name that is an option": {
			nil, func(ctx context.Context, c *Client) error { return c.Remove(ctx, Ref{"vgA", "-ff"}) }, ErrInvalid,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nil)
			b.state(t)
			for command, r := range test.replies {
				b.on(command, r)
			}
			err := test.call(t.Context(), b.client)
			var known *Error
			if !errors.As(err, &known) || known.Kind != test.want {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

func TestClient_LVMDiesAfterItsEffect(t *testing.T) {
	b := newBed(t, nil)
	b.state(t)
	// In the fresh state lin and th exist and have these tags; so the effect took place.
	b.on("lvcreate", reply{Die: true})
	b.on("lvchange", reply{Die: true})
	b.on("fullreport", reply{Report: recorded(t, "mixed")})
	if err := b.client.ChangeTags(t.Context(), Ref{"vgA", "lin"}, []string{"csi-local/state=new"}, nil); err != nil {
		t.Errorf("tags that are there: %v", err)
	}
	if err := b.client.ChangeTags(t.Context(), Ref{"vgA", "lin"}, []string{"other"}, nil); !errors.Is(err, ErrUnavailable) {
		t.Errorf("tags that are not there: %v", err)
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
