package driver_test

import (
	"os"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/csi-local/csi-local/pkg/driver/drivertest"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
)

// Between the look at the mount table and statfs(2) the volume may be unmounted:
// then the path is a folder of the host, or gone (juicedata/juicefs-csi-driver#1434).
func TestStats_UnmountedBeforeTheNumbersAreRead(t *testing.T) {
	for _, removed := range []bool{false, true} {
		b := drivertest.ForTest(t, drivertest.Options{})
		v := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
		must(t, v.Stage(t.Context()), v.Publish(t.Context(), "pod1"))
		target := v.Target("pod1")
		b.SetHooks(nil, func(c drivertest.Call) error {
			if c.Op != drivertest.OpStatfs || c.Phase != lvmfake.Before || c.Path != target {
				return nil
			}
			err := b.Mounter.Unmount(t.Context(), target)
			if err == nil && removed {
				err = os.Remove(target)
			}
			return err
		})
		_, err := stats(t.Context(), b, v.ID, target)
		wantCode(t, err, codes.NotFound)
	}
}

// A host's disk that is full or has errors is no trouble of the volume's.
func TestHealth_UnmountedBeforeTheFileSystemIsAsked(t *testing.T) {
	b := drivertest.ForTest(t, drivertest.Options{})
	v := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
	must(t, v.Stage(t.Context()))
	b.SetHooks(nil, func(c drivertest.Call) error {
		if c.Op != drivertest.OpStatfs || c.Phase != lvmfake.Before {
			return nil
		}
		return b.Mounter.Unmount(t.Context(), v.Staging)
	})
	resp, err := b.Node.NodeGetVolumeHealth(t.Context(), &csi.NodeGetVolumeHealthRequest{VolumeId: v.ID})
	must(t, err)
	if got := conditions(resp.GetVolumeHealth()); len(got) != 0 {
		t.Errorf("conditions %v", got)
	}
}
