package driver_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csi-local/csi-local/pkg/driver/drivertest"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

const extent = 4 * mib

// A retry of what was done, a lost answer, a volume extended by hand: the file
// system grows whether or not the volume still had to
// (openebs/lvm-localpv#381, #220, democratic-csi/democratic-csi#558).
func TestExpand_IsIdempotentAndComparesInExtents(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(fsType, func(t *testing.T) {
			b := drivertest.ForTest(t, drivertest.Options{})
			v := mustVolume(t, b, "vol1", gib, mountCap(fsType, writer))
			must(t, v.Stage(t.Context()), v.Publish(t.Context(), "pod1"))
			for range 3 {
				got, err := v.Expand(t.Context(), gib+1, v.Target("pod1"))
				must(t, err)
				if got != gib+extent {
					t.Errorf("capacity %d, want %d", got, gib+extent)
				}
			}
			if got := b.Kernel.Growths(v.Ref); got != 1 {
				t.Errorf("grown %d times, want 1", got)
			}
			_, err := b.LVM.Extend(t.Context(), v.Ref, 2*gib)
			must(t, err)
			got, err := v.Expand(t.Context(), 2*gib, v.Target("pod1"))
			must(t, err)
			if got != 2*gib || b.Kernel.Growths(v.Ref) != 2 {
				t.Errorf("capacity %d, grown %d times; want %d, 2", got, b.Kernel.Growths(v.Ref), 2*gib)
			}
			got, err = v.Expand(t.Context(), 0, v.Target("pod1"))
			must(t, err)
			if got != 2*gib {
				t.Errorf("without a range: capacity %d, want %d", got, 2*gib)
			}
		})
	}
}

// Where kubelet may call it, and what it must not touch (aleofreddi/csi-sanlock-lvm#39, #41,
// kubernetes-sigs/gcp-compute-persistent-disk-csi-driver#1088).
func TestExpand_WhereTheVolumeIs(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})

	t.Run("staged and not published", func(t *testing.T) {
		v := mustVolume(t, b, "a", 64*mib, mountCap("ext4", writer))
		must(t, v.Stage(t.Context()))
		_, err := v.Expand(t.Context(), 128*mib, v.Target("pod-to-come"))
		must(t, err)
		if b.Kernel.Growths(v.Ref) != 1 {
			t.Error("not grown")
		}
	})
	t.Run("not mounted", func(t *testing.T) {
		v := mustVolume(t, b, "b", 64*mib, mountCap("ext4", writer))
		must(t, v.Stage(t.Context()), v.Unstage(t.Context()))
		got, err := v.Expand(t.Context(), 128*mib, v.Target("pod-to-come"))
		must(t, err)
		if got != 128*mib || b.Kernel.Growths(v.Ref) != 0 {
			t.Errorf("capacity %d, grown %d times", got, b.Kernel.Growths(v.Ref))
		}
		must(t, v.Stage(t.Context()))
		if b.Kernel.Growths(v.Ref) != 1 {
			t.Error("not grown when it was staged")
		}
	})
	t.Run("read-only", func(t *testing.T) {
		v := mustVolume(t, b, "c", 64*mib, mountCap("ext4", reader))
		must(t, v.Stage(t.Context()))
		got, err := v.Expand(t.Context(), 128*mib, v.Staging)
		must(t, err, v.Unstage(t.Context()))
		if got != 128*mib || b.Kernel.Growths(v.Ref) != 0 {
			t.Errorf("capacity %d, grown %d times", got, b.Kernel.Growths(v.Ref))
		}
		must(t, v.StageWith(t.Context(), mountCap("ext4", writer)))
		if b.Kernel.Growths(v.Ref) != 1 {
			t.Error("not grown when it was staged for writing")
		}
	})
	t.Run("block, by kubelet's device path", func(t *testing.T) {
		v := mustVolume(t, b, "d", 64*mib, blockCap(writer))
		must(t, v.Stage(t.Context()), v.Publish(t.Context(), "pod1"))
		before := len(b.Mounter.Calls())
		for _, path := range []string{"/dev/loop7", v.Target("pod1")} {
			got, err := v.Expand(t.Context(), 128*mib, path)
			must(t, err)
			if got != 128*mib {
				t.Errorf("capacity %d", got)
			}
		}
		if calls := b.Mounter.Calls()[before:]; len(calls) != 0 {
			t.Errorf("a tool was run: %+v", calls)
		}
	})
	t.Run("a folder of the host", func(t *testing.T) {
		v := mustVolume(t, b, "e", 64*mib, mountCap("ext4", writer))
		must(t, v.Stage(t.Context()), v.Unstage(t.Context()))
		target := v.Target("pod1")
		must(t, os.Mkdir(target, 0o750))
		_, err := v.Expand(t.Context(), 128*mib, target)
		wantCode(t, err, codes.Internal)
		lv, err := v.lv(t.Context())
		must(t, err)
		if lv.SizeBytes != 64*mib {
			t.Errorf("extended to %d", lv.SizeBytes)
		}
	})
	t.Run("another volume's path", func(t *testing.T) {
		v := mustVolume(t, b, "f", 64*mib, mountCap("ext4", writer))
		other := mustVolume(t, b, "g", 64*mib, mountCap("ext4", writer))
		must(t, v.Stage(t.Context()), v.Unstage(t.Context()), other.Stage(t.Context()))
		_, err := v.Expand(t.Context(), 128*mib, other.Staging)
		wantCode(t, err, codes.Internal)
		if b.Kernel.Growths(other.Ref) != 0 {
			t.Error("the other volume was grown")
		}
	})
	t.Run("unknown volume", func(t *testing.T) {
		_, err := b.Node.NodeExpandVolume(t.Context(), &csi.NodeExpandVolumeRequest{VolumeId: "vgA/nosuch", VolumePath: "some/path"})
		wantCode(t, err, codes.NotFound)
	})
	t.Run("bad requests", func(t *testing.T) {
		_, err := b.Node.NodeExpandVolume(t.Context(), &csi.NodeExpandVolumeRequest{VolumePath: "/x"})
		wantCode(t, err, codes.InvalidArgument)
		_, err = b.Node.NodeExpandVolume(t.Context(), &csi.NodeExpandVolumeRequest{VolumeId: "vgA/a"})
		wantCode(t, err, codes.InvalidArgument)
	})
}

// No room is OutOfRange, with the numbers to ask for less; the smaller request
// then succeeds (kubernetes-csi/external-resizer#132, harvester/harvester#11453).
func TestExpand_BeyondThePoolIsOutOfRangeWithNumbers(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
	must(t, v.Stage(t.Context()))
	_, err := v.Expand(t.Context(), 10<<40, v.Staging)
	wantCode(t, err, codes.OutOfRange)
	for _, number := range []string{"3 GiB (3221225472 bytes) left", "at most 4 GiB (4294967296 bytes) would fit"} {
		if !strings.Contains(status.Convert(err).Message(), number) {
			t.Errorf("%q does not say %q", status.Convert(err).Message(), number)
		}
	}
	lv, err := v.lv(t.Context())
	must(t, err)
	if lv.SizeBytes != gib {
		t.Errorf("extended to %d", lv.SizeBytes)
	}
	got, err := v.Expand(t.Context(), 4*gib, v.Staging)
	must(t, err)
	if got != 4*gib {
		t.Errorf("capacity %d", got)
	}
}

func TestExpand_LVMsOwnLackOfSpaceIsOutOfRangeToo(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
	b.SetHooks(func(_ context.Context, c lvmfake.Call) error {
		if c.Op == lvmfake.OpExtend && c.Phase == lvmfake.Before {
			return lvm.ErrNoSpace
		}
		return nil
	}, nil)
	_, err := v.Expand(t.Context(), 2*gib, v.Staging+"/none")
	wantCode(t, err, codes.OutOfRange)
}

func TestExpand_LimitBelowTheSize(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, blockCap(writer))
	for _, c := range []struct {
		name            string
		required, limit int64
		want            codes.Code
	}{
		{"limit below the size", 0, gib - 1, codes.OutOfRange},
		{"required above the limit", 3 * gib, 2 * gib, codes.InvalidArgument},
		{"no extent between", gib + 1, gib + 2, codes.OutOfRange},
		{"negative", -1, 0, codes.InvalidArgument},
		{"fits", gib + 1, gib + extent, codes.OK},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := b.Node.NodeExpandVolume(t.Context(), &csi.NodeExpandVolumeRequest{
				VolumeId: v.ID, VolumePath: v.Staging, VolumeCapability: v.Cap,
				CapacityRange: &csi.CapacityRange{RequiredBytes: c.required, LimitBytes: c.limit},
			})
			wantCode(t, err, c.want)
		})
	}
}

func TestExpand_OriginOfASnapshotWaitsForTheSnapshot(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, blockCap(writer))
	must(t, v.Stage(t.Context()), b.Machine.Snapshot(v.Ref, "snap1", 64*mib), b.Restart(t.Context()))
	_, err := v.Expand(t.Context(), 2*gib, v.Staging)
	wantCode(t, err, codes.Internal)
	byHand, err := lvmfake.New(lvmfake.Options{Machine: b.Machine, VolumeGroups: []lvm.VolumeGroupSelector{{Name: "vgA"}}})
	must(t, err)
	must(t, byHand.Remove(t.Context(), lvm.Ref{VolumeGroup: "vgA", Name: "snap1"}))
	_, err = v.Expand(t.Context(), 2*gib, v.Staging)
	must(t, err)
}

func thinOptions() drivertest.Options {
	return drivertest.Options{
		ThinPools: []lvm.ThinPoolRequest{{Ref: lvm.Ref{VolumeGroup: "vgA", Name: "tp0"}, SizeBytes: 2 * gib}},
		Pools:     []poolconfig.Pool{drivertest.ThickPool("pool-thick", "vgA"), drivertest.ThinPool("pool-thin", "vgA", "tp0")},
	}
}

func TestExpand_ThinOverTheWatermarkIsOutOfRange(t *testing.T) {
	b := drivertest.ForTest(t, thinOptions())
	v, err := newVolumeOf(t.Context(), b, "vol1", gib, blockCap(writer), map[string]string{"pool": "pool-thin"})
	must(t, err, v.Stage(t.Context()), v.mark(t.Context(), "precious"))
	pool := lvm.Ref{VolumeGroup: "vgA", Name: "tp0"}
	must(t, b.Machine.SetPoolHealth(pool, lvmfake.PoolHealth{DataPercent: 91, MetadataPercent: 5}), b.Restart(t.Context()))
	_, err = v.Expand(t.Context(), gib+extent, v.Staging)
	wantCode(t, err, codes.OutOfRange)
	must(t, v.checkMark(t.Context(), "precious"))
	must(t, b.Machine.SetPoolHealth(pool, lvmfake.PoolHealth{DataPercent: 10, MetadataPercent: 5}), b.Restart(t.Context()))
	got, err := v.Expand(t.Context(), gib+extent, v.Staging)
	must(t, err)
	if got != gib+extent {
		t.Errorf("capacity %d", got)
	}
}

func TestExpand_ThinAfterARebootIsNotTakenForFull(t *testing.T) {
	b := drivertest.ForTest(t, thinOptions())
	v, err := newVolumeOf(t.Context(), b, "vol1", gib, blockCap(writer), map[string]string{"pool": "pool-thin"})
	must(t, err, b.Reboot(t.Context()))
	_, err = v.Expand(t.Context(), gib+extent, v.Staging)
	must(t, err)
}

// Two expansions race for the last GiB: one gets it.
func TestExpand_RaceForTheLastBytes(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v1 := mustVolume(t, b, "vol1", gib+512*mib, blockCap(writer))
	v2 := mustVolume(t, b, "vol2", gib+512*mib, blockCap(writer))
	var wait sync.WaitGroup
	errs := make([]error, 2)
	for i, v := range []*testVolume{v1, v2} {
		wait.Go(func() { _, errs[i] = v.Expand(t.Context(), 2*gib+512*mib, v.Staging) })
	}
	wait.Wait()
	first, second := status.Code(errs[0]), status.Code(errs[1])
	if first == second || first != codes.OK && first != codes.OutOfRange || second != codes.OK && second != codes.OutOfRange {
		t.Errorf("codes %v, %v; want one OK and one OutOfRange (%v)", first, second, errors.Join(errs...))
	}
}

func TestExpand_PathThroughALinkedKubeletFolder(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", 64*mib, mountCap("xfs", writer))
	must(t, v.Stage(t.Context()))
	link := filepath.Join(b.Dir, "link")
	must(t, os.Symlink(b.KubeletDir, link))
	_, err := b.Node.NodeExpandVolume(t.Context(), &csi.NodeExpandVolumeRequest{
		VolumeId: v.ID, VolumePath: link + strings.TrimPrefix(v.Staging, b.KubeletDir),
		CapacityRange: &csi.CapacityRange{RequiredBytes: 512 * mib},
	})
	must(t, err)
	if b.Kernel.Growths(v.Ref) != 1 {
		t.Error("not grown")
	}
}
