package driver_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csi-local/csi-local/pkg/driver/drivertest"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

func stats(ctx context.Context, b *drivertest.Bed, id, path string) ([]string, error) {
	resp, err := b.Node.NodeGetVolumeStats(ctx, &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: path})
	var units []string
	for _, usage := range resp.GetUsage() {
		units = append(units, usage.GetUnit().String())
	}
	return units, err
}

// Never the numbers of the host's disk (embercsi/ember-csi#148,
// juicedata/juicefs-csi-driver#1434).
func TestStats_OnlyOfThisVolumeAtThisPath(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
	other := mustVolume(t, b, "vol2", gib, mountCap("ext4", writer))
	block := mustVolume(t, b, "vol3", gib, blockCap(writer))
	must(t, v.Stage(t.Context()), v.Publish(t.Context(), "pod1"), other.Stage(t.Context()), block.Stage(t.Context()), block.Publish(t.Context(), "pod1"))
	folder := filepath.Join(b.KubeletDir, "pods/pod1/folder")
	must(t, os.Mkdir(folder, 0o750))
	before := len(b.LVM.Calls())
	filesystem, device := []string{"BYTES", "INODES"}, []string{"BYTES"}
	for _, c := range []struct {
		name, id, path string
		want           codes.Code
		units          []string
	}{
		{"target", v.ID, v.Target("pod1"), codes.OK, filesystem},
		{"staging path", v.ID, v.Staging, codes.OK, filesystem},
		{"block target", block.ID, block.Target("pod1"), codes.OK, device},
		{"block staging path", block.ID, block.Staging, codes.OK, device},
		{"folder of the host", v.ID, folder, codes.NotFound, nil},
		{"path that is not there", v.ID, v.Target("pod9"), codes.NotFound, nil},
		{"relative path", v.ID, "some/path", codes.NotFound, nil},
		{"path of another volume", v.ID, other.Staging, codes.NotFound, nil},
		{"unknown volume", "vgA/nosuch", v.Staging, codes.NotFound, nil},
		{"ID of nobody", "nosuch", v.Staging, codes.NotFound, nil},
		{"no volume ID", "", v.Staging, codes.InvalidArgument, nil},
		{"no path", v.ID, "", codes.InvalidArgument, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			units, err := stats(t.Context(), b, c.id, c.path)
			wantCode(t, err, c.want)
			if diff := cmp.Diff(c.units, units); diff != "" {
				t.Error(diff)
			}
		})
	}
	if calls := b.LVM.Calls()[before:]; len(calls) != 0 {
		t.Errorf("LVM was asked: %+v", calls)
	}
	resp, err := b.Node.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: block.ID, VolumePath: block.Target("pod1")})
	must(t, err)
	if got := resp.GetUsage()[0].GetTotal(); got != gib {
		t.Errorf("block volume has %d bytes, want %d", got, gib)
	}
}

func TestStats_AreGoneAfterUnpublishAndRaceWithIt(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
	must(t, v.Stage(t.Context()))
	target := v.Target("pod1")
	for range 20 {
		must(t, v.Publish(t.Context(), "pod1"))
		var wait sync.WaitGroup
		wait.Go(func() {
			_, err := stats(t.Context(), b, v.ID, target)
			if code := status.Code(err); code != codes.OK && code != codes.NotFound && code != codes.Internal {
				t.Errorf("during unpublication: %v", err)
			}
		})
		wait.Go(func() {
			if err := v.Unpublish(t.Context(), "pod1"); err != nil {
				t.Error(err)
			}
		})
		wait.Wait()
		_, err := stats(t.Context(), b, v.ID, target)
		wantCode(t, err, codes.NotFound)
	}
}

func TestStats_OfAHangingFilesystemAnswerInTime(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
	other := mustVolume(t, b, "vol2", gib, mountCap("ext4", writer))
	must(t, v.Stage(t.Context()), other.Stage(t.Context()))
	release := make(chan struct{})
	b.SetHooks(nil, func(c drivertest.Call) error {
		if c.Op == drivertest.OpStatfs && c.Path == v.Staging {
			<-release
		}
		return nil
	})
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := stats(short, b, v.ID, v.Staging)
	wantCode(t, err, codes.DeadlineExceeded)
	health, err := b.Node.NodeGetVolumeHealth(t.Context(), &csi.NodeGetVolumeHealthRequest{VolumeId: v.ID})
	must(t, err)
	if diff := cmp.Diff([]string{"INACCESSIBLE NotResponding"}, conditions(health.GetVolumeHealth())); diff != "" {
		t.Error(diff)
	}
	_, err = stats(t.Context(), b, other.ID, other.Staging)
	wantCode(t, err, codes.OK)
	var wait sync.WaitGroup
	for range 10 {
		wait.Go(func() {
			soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if _, err := stats(soon, b, v.ID, v.Staging); status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("while it hangs: %v", err)
			}
		})
	}
	wait.Wait()
	waiting := 0
	for _, call := range b.Mounter.Calls() {
		if call.Op == drivertest.OpStatfs && call.Path == v.Staging {
			waiting++
		}
	}
	if waiting != 1 {
		t.Errorf("%d calls hang in the kernel", waiting)
	}
	close(release)
	await(t, "it answers again", func() bool {
		_, err := stats(t.Context(), b, v.ID, v.Staging)
		return err == nil
	})
}

// A total, never what is left, and never 0, which would mean "no limit"
// (linode/linode-blockstorage-csi-driver#310, kubernetes/kubernetes#114528).
func TestNodeInfo_MaxVolumesIsATotal(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{MaxVolumes: 10})
	maxVolumes := func() int64 {
		resp, err := b.Node.NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
		must(t, err)
		fromDriver, err := b.Driver.MaxVolumesPerNode()
		must(t, err)
		if fromDriver != resp.GetMaxVolumesPerNode() {
			t.Errorf("NodeGetInfo says %d, the driver %d", resp.GetMaxVolumesPerNode(), fromDriver)
		}
		return resp.GetMaxVolumesPerNode()
	}
	var volumes []*testVolume
	for i := range 12 {
		if i == 0 || i == 9 || i == 10 || i == 11 {
			if got := maxVolumes(); got != 10 {
				t.Errorf("with %d volumes: %d", i, got)
			}
		}
		volumes = append(volumes, mustVolume(t, b, "vol"+string(rune('a'+i)), 4*mib, blockCap(writer)))
	}
	for _, v := range volumes {
		must(t, v.Stage(t.Context()))
	}
	if got := maxVolumes(); got != 12 {
		t.Errorf("with 12 in use and a limit of 10: %d", got)
	}
	for _, v := range volumes {
		must(t, v.Unstage(t.Context()))
	}
	if got := maxVolumes(); got != 10 {
		t.Errorf("with none in use any more: %d", got)
	}
}

// LVM may take fewer volumes than were configured. Volumes of ours that come and go
// change nothing; both who publish say the same, and never 0.
func TestNodeInfo_MaxVolumesIsWhatLVMTakes(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{MaxVolumes: 10})
	want := func(when string, count int64) {
		t.Helper()
		must(t, b.Driver.RefreshPools(t.Context()))
		resp, err := b.Node.NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
		must(t, err)
		fromDriver, err := b.Driver.MaxVolumesPerNode()
		must(t, err)
		if fromDriver != count || resp.GetMaxVolumesPerNode() != count {
			t.Errorf("%s: the driver says %d, NodeGetInfo %d; want %d", when, fromDriver, resp.GetMaxVolumesPerNode(), count)
		}
	}
	foreign := func(name string) {
		t.Helper()
		_, err := b.LVM.Create(t.Context(), lvm.CreateRequest{Ref: lvm.Ref{VolumeGroup: "vgA", Name: name}, SegmentType: lvm.SegLinear, SizeBytes: 4 * mib})
		must(t, err)
	}
	want("no limit of LVM", 10)
	must(t, b.Machine.LimitVolumes("vgA", 5))
	want("LVM takes 5", 5)
	var volumes []*testVolume
	for i := range 3 {
		volumes = append(volumes, mustVolume(t, b, "vol"+string(rune('a'+i)), 4*mib, blockCap(writer)))
		must(t, volumes[i].Stage(t.Context()))
		want("with volumes of ours", 5)
	}
	foreign("theirs")
	want("with a volume of others", 4)
	foreign("too")
	want("nothing more fits", 3)
	state, err := b.LVM.State(t.Context())
	must(t, err)
	disk := state.VolumeGroups[0].PhysicalVolumes[0].Device
	must(t, b.Machine.SetDiskMissing("vgA", disk, true))
	want("a disk is missing", 3)
	must(t, b.Machine.SetDiskMissing("vgA", disk, false))
	want("the disk is back", 3)
	_, err = newVolume(t.Context(), b, "vold", 4*mib, blockCap(writer))
	wantCode(t, err, codes.ResourceExhausted)
	for _, v := range volumes {
		must(t, v.Unstage(t.Context()))
		must(t, v.Remove(t.Context()))
		want("volumes of ours go", 3)
	}
	for _, name := range []string{"c", "d", "e"} {
		foreign(name)
	}
	want("others took all", 1)
}

func TestNodeInfo_NodeAndTopology(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	resp, err := b.Node.NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
	must(t, err)
	if resp.GetNodeId() != drivertest.NodeName {
		t.Errorf("node %q", resp.GetNodeId())
	}
	want := map[string]string{drivertest.DriverName + "/node": drivertest.NodeName}
	if diff := cmp.Diff(want, resp.GetAccessibleTopology().GetSegments()); diff != "" {
		t.Error(diff)
	}
}

func conditions(h *csi.VolumeHealth) []string {
	var out []string
	for _, e := range h.GetHealthStatuses() {
		out = append(out, e.GetStatus().String()+" "+e.GetReason())
	}
	return out
}

func TestHealth_OfVolumes(t *testing.T) {
	o := thinOptions()
	o.Groups = []lvmfake.Group{{Name: "vgA", Disks: []lvmfake.Disk{{Device: "/dev/sda", SizeBytes: 4 * gib}, {Device: "/dev/sdb", SizeBytes: 4 * gib}}}}
	b := drivertest.ForTest(t, o)
	thin, err := newVolumeOf(t.Context(), b, "thin1", gib, mountCap("ext4", writer), map[string]string{"pool": "pool-thin"})
	must(t, err, thin.Stage(t.Context()))
	mirror, err := newVolumeOf(t.Context(), b, "mirror1", gib, mountCap("ext4", writer),
		map[string]string{"pool": "pool-thick", "layout": "raid1", "mirrors": "2"})
	must(t, err)
	linear := mustVolume(t, b, "linear1", 3*gib, mountCap("ext4", writer))
	health := func(v *testVolume) []string {
		t.Helper()
		resp, err := b.Node.NodeGetVolumeHealth(t.Context(), &csi.NodeGetVolumeHealthRequest{VolumeId: v.ID})
		must(t, err)
		if resp.GetVolumeHealth().GetVolumeId() != v.ID {
			t.Errorf("answer about %q", resp.GetVolumeHealth().GetVolumeId())
		}
		return conditions(resp.GetVolumeHealth())
	}
	check := func(what string, v *testVolume, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, health(v)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	check("well", thin)
	check("well", mirror)

	number, err := thin.number(t.Context())
	must(t, err)
	b.Kernel.FailFilesystem(number)
	check("failed file system", thin, "DEGRADED FilesystemReadOnly")
	pool := lvm.Ref{VolumeGroup: "vgA", Name: "tp0"}
	must(t, b.Machine.SetPoolHealth(pool, lvmfake.PoolHealth{DataPercent: 100, Health: "out_of_data", NeedsCheck: true}), b.Restart(t.Context()))
	check("full pool", thin, "INACCESSIBLE ThinPoolFull", "INACCESSIBLE ThinPoolNeedsRepair", "DEGRADED FilesystemReadOnly")

	must(t, b.Machine.SetDiskMissing("vgA", "/dev/sdb", true), b.Restart(t.Context()))
	check("a copy lost", mirror, "DEGRADED PhysicalVolumeMissing")
	check("a part lost", linear, "INACCESSIBLE PhysicalVolumeMissing")

	_, err = b.Node.NodeGetVolumeHealth(t.Context(), &csi.NodeGetVolumeHealthRequest{VolumeId: "vgA/nosuch"})
	if code := status.Code(err); code != codes.OK && code != codes.NotFound {
		t.Errorf("unknown volume: %v", err)
	}
	_, err = b.Node.NodeGetVolumeHealth(t.Context(), &csi.NodeGetVolumeHealthRequest{})
	wantCode(t, err, codes.InvalidArgument)
}

func TestHealth_OfPools(t *testing.T) {
	o := thinOptions()
	o.Groups = []lvmfake.Group{
		{Name: "vgA", Disks: []lvmfake.Disk{{SizeBytes: 4 * gib}}},
		{Name: "vgB", Disks: []lvmfake.Disk{{Device: "/dev/sdx", SizeBytes: gib}, {SizeBytes: gib}}},
	}
	o.Pools = append(o.Pools, drivertest.ThickPool("pool-b", "vgB"))
	b := drivertest.ForTest(t, o)
	check := func(what string, want ...string) {
		t.Helper()
		resp, err := b.Node.NodeGetStorageHealth(t.Context(), &csi.NodeGetStorageHealthRequest{})
		must(t, err)
		var got []string
		for _, e := range resp.GetBackendHealth() {
			got = append(got, e.GetStatus().String()+" "+e.GetReason())
			if e.GetMessage() == "" {
				t.Errorf("%s says nothing", e.GetReason())
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	check("well")
	pool := lvm.Ref{VolumeGroup: "vgA", Name: "tp0"}
	must(t, b.Machine.SetPoolHealth(pool, lvmfake.PoolHealth{DataPercent: 95}), b.Restart(t.Context()))
	check("nearly full", "STORAGE_DEGRADED ThinPoolNearlyFull")
	must(t, b.Machine.SetPoolHealth(pool, lvmfake.PoolHealth{NeedsCheck: true}), b.Restart(t.Context()))
	check("needs repair", "STORAGE_DEGRADED PoolUnusable")
	must(t, b.Machine.SetPoolHealth(pool, lvmfake.PoolHealth{}), b.Machine.SetDiskMissing("vgB", "/dev/sdx", true), b.Restart(t.Context()))
	check("a disk missing", "STORAGE_DEGRADED PhysicalVolumeMissing")
	b.SetPools([]poolconfig.Pool{drivertest.ThickPool("pool-c", "vgC")})
	check("no such volume group", "STORAGE_UNREACHABLE VolumeGroupMissing")
}
