package driver

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

var testThinPool = lvm.Ref{VolumeGroup: "vg-b", Name: "tp0"} //nolint:gochecknoglobals // a constant

// awaitState waits until the client's state is as wanted.
func awaitState(t *testing.T, client *lvmfake.LVM, wanted func(*lvm.State) bool) {
	t.Helper()
	changes, cancel := client.Subscribe()
	defer cancel()
	for {
		state, err := client.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if wanted(state) {
			return
		}
		receive(t, changes, "change towards the wanted state")
	}
}

func poolIsActive(s *lvm.State) bool {
	lv, _ := s.LogicalVolume(testThinPool)
	return lv.Active
}

// After a reboot a thin pool is inactive and does not say how full it is; then
// it would have room for nothing, and so nobody would ask for a volume in it.
func TestChores_ActivateThinPools(t *testing.T) {
	w := newWorld(t, worldOptions{})
	if err := w.machine.Reboot(); err != nil {
		t.Fatal(err)
	}
	p := w.start(t)
	awaitState(t, p.lvm, poolIsActive)
}

// A bug that a chore meets must not end the process: harvester/harvester#11105.
func TestChores_PanicIsTheirOwn(t *testing.T) {
	w := newWorld(t, worldOptions{})
	client := w.client(t)
	_, err := client.Create(t.Context(), lvm.CreateRequest{
		Ref: lvm.Ref{VolumeGroup: "vg-a", Name: "csi-abc"}, SegmentType: lvm.SegLinear, SizeBytes: 8 * mib,
		Tags: []string{"csi-local/driver=" + testDriver, "csi-local/name=csi-abc", "csi-local/pool=thick", "csi-local/state=new", "csi-local/pod=uid"},
	})
	if err != nil {
		t.Fatal(err)
	}
	d := w.driver(t, client)
	d.kubeletDir = t.TempDir()
	if err := os.Mkdir(filepath.Join(d.kubeletDir, "pods"), 0o700); err != nil {
		t.Fatal(err)
	}
	d.pools = func() []poolconfig.Pool { panic("bug") }
	d.mounter = nil // the sweep meets it when it looks for mounts of the volume
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // once
	d.doChores(ctx)
	d.sweepInline(ctx)
}
