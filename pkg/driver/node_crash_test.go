package driver_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csi-local/csi-local/pkg/driver/drivertest"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
)

// crasher kills the driver's process at the n-th step of LVM, of a device or of
// the mount table; from then on nothing that the process does has an effect.
type crasher struct {
	mu    sync.Mutex
	at    int // 0: never
	steps []string
	dead  bool
}

func (c *crasher) step(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps = append(c.steps, name)
	if c.at > 0 && len(c.steps) >= c.at {
		c.dead = true
	}
	if c.dead {
		return lvmfake.ErrCrash
	}
	return nil
}

func (c *crasher) arm(b *drivertest.Bed) {
	b.SetHooks(
		func(_ context.Context, call lvmfake.Call) error {
			return c.step(fmt.Sprintf("%s %s", call.Phase, call.Op))
		},
		func(call drivertest.Call) error { return c.step(fmt.Sprintf("%s %s", call.Phase, call.Op)) },
	)
}

// crashScenario is a mutating call of the node service and what comes before it.
type crashScenario struct {
	name string
	cap  *csi.VolumeCapability
	pool string // pool-thick if empty
	// before are the steps up to the call, call is the one that is cut off.
	before, call string
	inline       bool
}

func crashScenarios() []crashScenario {
	ext4, xfs, block, read := mountCap("ext4", writer, "noatime"), mountCap("xfs", writer), blockCap(writer), mountCap("ext4", reader)
	return []crashScenario{
		{name: "stage new ext4", cap: ext4, call: "stage"},
		{name: "stage new xfs", cap: xfs, call: "stage"},
		{name: "stage new block", cap: block, call: "stage"},
		{name: "stage new ext4 read-only", cap: read, call: "stage"},
		{name: "stage new ext4, thin", cap: ext4, pool: "pool-thin", call: "stage"},
		{name: "stage used ext4", cap: ext4, before: "stage mark unstage", call: "stage"},
		{name: "stage used block", cap: block, before: "stage mark unstage", call: "stage"},
		{name: "stage used ext4 after a reboot", cap: ext4, before: "stage mark reboot", call: "stage"},
		{name: "stage ext4 that was extended meanwhile", cap: ext4, before: "stage mark unstage expand", call: "stage"},
		{name: "publish ext4", cap: ext4, before: "stage mark", call: "publish"},
		{name: "publish block", cap: block, before: "stage mark", call: "publish"},
		{name: "unpublish ext4", cap: ext4, before: "stage mark publish", call: "unpublish"},
		{name: "unpublish block", cap: block, before: "stage mark publish", call: "unpublish"},
		{name: "unstage ext4", cap: ext4, before: "stage mark", call: "unstage"},
		{name: "unstage block", cap: block, before: "stage mark", call: "unstage"},
		{name: "expand staged ext4", cap: ext4, before: "stage mark", call: "expand"},
		{name: "expand published xfs", cap: xfs, before: "stage mark publish", call: "expand"},
		{name: "expand published block", cap: block, before: "stage mark publish", call: "expand"},
		{name: "expand ext4 that is not mounted", cap: ext4, before: "stage mark unstage", call: "expand"},
		{name: "expand thin ext4", cap: ext4, pool: "pool-thin", before: "stage mark", call: "expand"},
		{name: "inline publish", inline: true, call: "publish"},
		{name: "inline publish after a reboot", inline: true, before: "publish reboot", call: "publish"},
		{name: "inline unpublish", inline: true, before: "publish", call: "unpublish"},
	}
}

// crashRun is one life of a scenario on a bed of its own.
type crashRun struct {
	crashScenario
	bed    *drivertest.Bed
	volume *testVolume
	inline *inlineVolume
	free   int64
	marked bool
}

const crashBytes = 64 * mib // xfs gets its minimum

func newCrashRun(t *testing.T, s crashScenario) *crashRun {
	t.Helper()
	r := &crashRun{crashScenario: s, bed: drivertest.ForTest(t, thinOptions())}
	var err error
	r.free, err = freeExtents(t.Context(), r.bed)
	must(t, err)
	if s.inline {
		r.inline = newInline(r.bed, "csi-1")
	} else {
		pool := s.pool
		if pool == "" {
			pool = "pool-thick"
		}
		r.volume, err = newVolumeOf(t.Context(), r.bed, "vol1", crashBytes, s.cap, map[string]string{"pool": pool})
		must(t, err)
	}
	for step := range strings.FieldsSeq(s.before) {
		if err := r.do(t.Context(), step); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
	}
	return r
}

// do makes one step by name. It comes again while the driver finishes by itself
// what was cut off, as kubelet does.
func (r *crashRun) do(ctx context.Context, step string) error {
	for {
		if err := r.try(ctx, step); status.Code(err) != codes.Aborted {
			return err
		}
	}
}

func (r *crashRun) try(ctx context.Context, step string) error {
	if r.inline != nil {
		switch step {
		case "publish":
			return r.inline.publish(ctx)
		case "unpublish":
			return r.inline.unpublish(ctx)
		case "unstage", "delete":
			return nil
		}
	}
	switch step {
	case "stage":
		return r.volume.Stage(ctx)
	case "unstage":
		return r.volume.Unstage(ctx)
	case "publish":
		return r.volume.Publish(ctx, "pod1")
	case "unpublish":
		return r.volume.Unpublish(ctx, "pod1")
	case "mark":
		r.marked = true
		return r.volume.mark(ctx, "precious")
	case "expand":
		_, err := r.volume.Expand(ctx, 2*r.volume.Bytes, r.volume.Target("pod1"))
		return err
	case "delete":
		return r.volume.Remove(ctx)
	case "reboot":
		return r.bed.Reboot(ctx)
	}
	return fmt.Errorf("no such step: %s", step)
}

// outcome is what is left of a call, in a form that can be compared.
type outcome struct {
	Mounts []string
	Tags   []string
	Size   int64
	Free   int64
}

func (r *crashRun) outcome(ctx context.Context) (outcome, error) {
	var out outcome
	for _, m := range r.bed.Kernel.Mounts() {
		path, _ := strings.CutPrefix(m.Path, r.bed.Dir)
		out.Mounts = append(out.Mounts, fmt.Sprint(path, m.FSType, m.Options, m.SuperOptions, m.Block, exists(m.Path)))
	}
	slices.Sort(out.Mounts)
	state, err := r.bed.LVM.Refresh(ctx)
	if err != nil {
		return outcome{}, err
	}
	group, _ := state.VolumeGroup("vgA")
	out.Free = group.FreeExtents
	for _, lv := range group.LogicalVolumes {
		if lv.Name != "tp0" {
			out.Tags, out.Size = lv.Tags, lv.SizeBytes
		}
	}
	return out, nil
}

// end tears all down and checks that nothing is left.
func (r *crashRun) end(t *testing.T, where string) {
	t.Helper()
	for _, step := range []string{"unpublish", "unstage", "delete"} {
		if err := r.do(t.Context(), step); err != nil {
			t.Errorf("%s: %s: %v", where, step, err)
		}
	}
	left, err := r.outcome(t.Context())
	must(t, err)
	if diff := cmp.Diff(outcome{Free: r.free}, left); diff != "" {
		t.Errorf("%s: left after the end: %s", where, diff)
	}
}

// Every mutating call of the node service is cut off before and after each step
// that it takes. Repeating it leads to what an undisturbed call leads to; giving
// it up and tearing down leads to nothing; data in used volumes stay.
func TestNodeCrash_AnyPointOfAnyCallConverges(t *testing.T) {
	points := 0
	for _, scenario := range crashScenarios() {
		t.Run(scenario.name, func(t *testing.T) {
			undisturbed := newCrashRun(t, scenario)
			counter := &crasher{}
			counter.arm(undisturbed.bed)
			must(t, undisturbed.do(t.Context(), scenario.call))
			undisturbed.bed.SetHooks(nil, nil)
			want, err := undisturbed.outcome(t.Context())
			must(t, err)
			undisturbed.end(t, "undisturbed")
			for at := 1; at <= len(counter.steps); at++ {
				where := fmt.Sprintf("killed at %d (%s)", at, counter.steps[at-1])
				crashAndRepeat(t, scenario, at, where, want)
				crashAndGiveUp(t, scenario, at, where)
			}
			points += len(counter.steps)
		})
	}
	t.Logf("%d crash points, each with two ways on", points)
	if points < 150 {
		t.Errorf("only %d crash points: hooks are missing", points)
	}
}

func crash(t *testing.T, scenario crashScenario, at int, where string) *crashRun {
	t.Helper()
	r := newCrashRun(t, scenario)
	c := &crasher{at: at}
	c.arm(r.bed)
	err := r.do(t.Context(), scenario.call)
	// After a reboot the driver also activates thin pools by itself, so a step
	// may be that work's, and there may be one less of them.
	if err == nil && !strings.Contains(scenario.before, "reboot") {
		t.Errorf("%s: the call succeeded", where)
	}
	r.bed.SetHooks(nil, nil)
	must(t, r.bed.Restart(t.Context()))
	return r
}

func crashAndRepeat(t *testing.T, scenario crashScenario, at int, where string, want outcome) {
	t.Helper()
	r := crash(t, scenario, at, where)
	if err := r.do(t.Context(), scenario.call); err != nil {
		t.Errorf("%s: repeated: %v", where, err)
		return
	}
	got, err := r.outcome(t.Context())
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: after repeating: %s", where, diff)
	}
	r.checkData(t, where)
	r.end(t, where)
}

func crashAndGiveUp(t *testing.T, scenario crashScenario, at int, where string) {
	t.Helper()
	r := crash(t, scenario, at, where)
	r.checkData(t, where)
	r.end(t, where+", given up")
}

func (r *crashRun) checkData(t *testing.T, where string) {
	t.Helper()
	if !r.marked {
		return
	}
	if _, err := r.bed.LVM.Activate(t.Context(), r.volume.Ref); err != nil {
		t.Fatal(err)
	}
	if err := r.volume.checkMark(t.Context(), "precious"); err != nil {
		t.Errorf("%s: %v", where, err)
	}
	formats := 1
	if r.cap.GetBlock() != nil {
		formats = 0
	}
	if got := r.bed.Kernel.Formats(r.volume.Ref); got != formats {
		t.Errorf("%s: formatted %d times", where, got)
	}
}
