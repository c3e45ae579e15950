package driver

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
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

// A thin pool with volumes has no device node, so LVM's wait for one fails
// although the pool is active.
func TestActivatePool_WithoutDeviceNode(t *testing.T) {
	for _, tt := range []struct {
		phase lvmfake.Phase
		want  codes.Code
	}{
		{lvmfake.After, codes.OK},
		{lvmfake.Before, codes.Unavailable},
	} {
		t.Run(string(tt.phase), func(t *testing.T) {
			w := newWorld(t, worldOptions{})
			if err := w.machine.Reboot(); err != nil {
				t.Fatal(err)
			}
			client := w.client(t)
			client.SetHook(func(_ context.Context, c lvmfake.Call) error {
				if c.Op == lvmfake.OpActivate && c.Phase == tt.phase {
					return fmt.Errorf("no node: %w", lvm.ErrUnavailable)
				}
				return nil
			})
			p := w.startWith(t, client)
			_, err := p.controller.CreateVolume(t.Context(), createReq("v", "thin", 8*mib))
			wantCode(t, "CreateVolume", err, tt.want)
		})
	}
}
