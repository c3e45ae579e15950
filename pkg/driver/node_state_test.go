package driver_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"github.com/csi-local/csi-local/pkg/driver/drivertest"
)

// modelVolume is what a volume should be like.
type modelVolume struct {
	*testVolume
	name      string
	published map[string]bool
	staged    bool
	used      bool
	mark      string
	size      int64
	grownTo   int64 // size of the file system
}

// model is the node as it should be.
type model struct {
	bed     *drivertest.Bed
	volumes []*modelVolume
	marks   int
}

func (m *model) pick(t *rapid.T) *modelVolume {
	return rapid.SampledFrom(m.volumes).Draw(t, "volume")
}

func pod(t *rapid.T) string { return rapid.SampledFrom([]string{"pod1", "pod2"}).Draw(t, "pod") }

func wantStatus(t *rapid.T, what string, err error, want codes.Code) {
	if got := status.Code(err); got != want {
		t.Fatalf("%s: code %v (%v), want %v", what, got, err, want)
	}
}

func (m *model) stage(t *rapid.T) {
	v := m.pick(t)
	wantStatus(t, "stage "+v.name, v.Stage(t.Context()), codes.OK)
	v.staged, v.used, v.grownTo = true, true, v.size
}

func (m *model) unstage(t *rapid.T) {
	v := m.pick(t)
	if len(v.published) > 0 {
		t.Skip("kubelet unpublishes first")
	}
	wantStatus(t, "unstage "+v.name, v.Unstage(t.Context()), codes.OK)
	v.staged = false
}

func (m *model) publish(t *rapid.T) {
	v, p := m.pick(t), pod(t)
	want := codes.OK
	many := v.Cap.GetAccessMode().GetMode() == multiWriter
	if !v.staged || !many && len(v.published) > 0 && !v.published[p] {
		want = codes.FailedPrecondition
	}
	wantStatus(t, "publish "+v.name, v.Publish(t.Context(), p), want)
	if want == codes.OK {
		v.published[p] = true
	}
}

func (m *model) unpublish(t *rapid.T) {
	v, p := m.pick(t), pod(t)
	wantStatus(t, "unpublish "+v.name, v.Unpublish(t.Context(), p), codes.OK)
	delete(v.published, p)
}

func (m *model) expand(t *rapid.T) {
	v := m.pick(t)
	by := rapid.Int64Range(0, 3*extent).Draw(t, "by")
	path := v.Target("pod9") // not there; the staging path is, if it is staged
	got, err := v.Expand(t.Context(), v.size+by, path)
	wantStatus(t, "expand "+v.name, err, codes.OK)
	v.size = (v.size + by + extent - 1) / extent * extent
	if got != v.size {
		t.Fatalf("expand %s by %d: %d bytes, want %d", v.name, by, got, v.size)
	}
	if v.staged {
		v.grownTo = v.size
	}
}

func (m *model) write(t *rapid.T) {
	v := m.pick(t)
	if !v.staged {
		t.Skip("nobody can write")
	}
	m.marks++
	v.mark = fmt.Sprintf("mark %d", m.marks)
	if err := v.testVolume.mark(t.Context(), v.mark); err != nil {
		t.Fatal(err)
	}
}

func (m *model) otherUse(t *rapid.T) {
	v := m.pick(t)
	if !v.used {
		t.Skip("nothing to protect")
	}
	other := mountCap("btrfs", writer)
	if rapid.Bool().Draw(t, "block") && v.Cap.GetBlock() == nil {
		other = blockCap(writer)
	}
	want := codes.FailedPrecondition
	if v.staged {
		want = codes.AlreadyExists
	}
	wantStatus(t, "stage in another way "+v.name, v.StageWith(t.Context(), other), want)
}

func (m *model) restart(t *rapid.T) {
	if err := m.bed.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (m *model) reboot(t *rapid.T) {
	if err := m.bed.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, v := range m.volumes {
		v.staged, v.published = false, map[string]bool{}
	}
}

func (m *model) remove(t *rapid.T) {
	v := m.pick(t)
	want := codes.OK
	if v.staged && v.Cap.GetBlock() == nil {
		want = codes.FailedPrecondition
	}
	if v.staged && want == codes.OK {
		t.Skip("nothing has the block device open, so nothing would hold it back")
	}
	wantStatus(t, "delete "+v.name, v.Remove(t.Context()), want)
	if want == codes.OK {
		m.create(t, v)
	}
}

// create makes a volume under the name of one that is gone.
func (m *model) create(t *rapid.T, old *modelVolume) {
	v, err := newVolume(t.Context(), m.bed, old.name, crashBytes, old.Cap)
	if err != nil {
		t.Fatal(err)
	}
	*old = modelVolume{testVolume: v, name: old.name, published: map[string]bool{}, size: v.Bytes}
}

// check compares the node with the model.
func (m *model) check(t *rapid.T) {
	mounts := 0
	for _, v := range m.volumes {
		if v.staged {
			mounts++
		}
		mounts += len(v.published)
		lv, err := v.lv(t.Context())
		if err != nil || lv.SizeBytes != v.size {
			t.Fatalf("volume %s: %d bytes, want %d (%v)", v.name, lv.SizeBytes, v.size, err)
		}
		if !lv.Active || v.mark == "" {
			continue
		}
		if err := v.checkMark(t.Context(), v.mark); err != nil {
			t.Fatal(err)
		}
	}
	if got := m.bed.Kernel.Mounts(); len(got) != mounts {
		t.Fatalf("%d mounts, want %d: %+v", len(got), mounts, got)
	}
	for _, v := range m.volumes {
		m.checkSize(t, v)
	}
}

// checkSize wants the file system to have the size that it last had a reason to have.
func (m *model) checkSize(t *rapid.T, v *modelVolume) {
	if !v.staged || v.Cap.GetBlock() != nil {
		return
	}
	resp, err := m.bed.Node.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: v.ID, VolumePath: v.Staging})
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.GetUsage()[0].GetTotal(); got != v.grownTo {
		t.Fatalf("file system of %s has %d bytes, want %d", v.name, got, v.grownTo)
	}
}

// Whatever order of calls, restarts and reboots: a volume that was used is never
// formatted again, its data stay, and what is mounted is what was asked for.
func TestNodeStates_AnyOrderOfCallsRestartsAndReboots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		dir, err := os.MkdirTemp("", "bed")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir) //nolint:errcheck // a folder of the test
		bed, err := drivertest.New(ctx, dir, drivertest.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer bed.Close() //nolint:errcheck // the test has ended
		m := &model{bed: bed}
		for _, v := range []*modelVolume{
			{name: "ext4", testVolume: &testVolume{Volume: &drivertest.Volume{Cap: mountCap("ext4", multiWriter)}}},
			{name: "xfs", testVolume: &testVolume{Volume: &drivertest.Volume{Cap: mountCap("xfs", singleWriter, "noatime")}}},
			{name: "block", testVolume: &testVolume{Volume: &drivertest.Volume{Cap: blockCap(multiWriter)}}},
		} {
			m.create(t, v)
			m.volumes = append(m.volumes, v)
		}
		t.Repeat(map[string]func(*rapid.T){
			"": m.check, "stage": m.stage, "unstage": m.unstage, "publish": m.publish, "unpublish": m.unpublish,
			"expand": m.expand, "write": m.write, "otherUse": m.otherUse, "restart": m.restart, "reboot": m.reboot, "remove": m.remove,
		})
	})
}
