package driver_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csi-local/csi-local/pkg/driver/drivertest"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
)

// removal deletes the volume in the background, and makes sure that there is no answer
// yet, as well as that can be: one that comes late is not seen here.
func removal(ctx context.Context, t *testing.T, v *testVolume) <-chan error {
	t.Helper()
	removed := make(chan error, 1)
	go func() { removed <- v.Remove(ctx) }()
	select {
	case err := <-removed:
		t.Fatalf("answers %v and does not wait", err)
	case <-time.After(200 * time.Millisecond):
	}
	return removed
}

// Whoever deletes a pod and its claim together has the deletion come before kubelet has
// called NodeUnstageVolume, or meanwhile.
func TestDelete_WaitsForKubelet(t *testing.T) {
	for name, capability := range map[string]*csi.VolumeCapability{"file system": mountCap("ext4", writer), "block": blockCap(writer)} {
		t.Run(name+", staged", func(t *testing.T) {
			b := drivertest.ForTest(t, drivertest.Options{UnstageWait: time.Minute})
			v := mustVolume(t, b, "vol1", gib, capability)
			must(t, v.Stage(t.Context()))
			removed := removal(t.Context(), t, v)
			must(t, v.Unstage(t.Context()), <-removed)
		})
		for _, phase := range []lvmfake.Phase{lvmfake.Before, lvmfake.After} {
			t.Run(fmt.Sprintf("%s, being unstaged, %v its unmounting", name, phase), func(t *testing.T) {
				b := drivertest.ForTest(t, drivertest.Options{UnstageWait: time.Minute})
				v := mustVolume(t, b, "vol1", gib, capability)
				must(t, v.Stage(t.Context()))
				entered, hold := make(chan struct{}), make(chan struct{})
				release := sync.OnceFunc(func() { close(hold) })
				defer release()
				b.SetHooks(nil, func(c drivertest.Call) error {
					if c.Op == drivertest.OpUnmount && c.Phase == phase {
						close(entered)
						<-hold
					}
					return nil
				})
				unstaged := make(chan error, 1)
				go func() { unstaged <- v.Unstage(t.Context()) }()
				<-entered
				removed := removal(t.Context(), t, v)
				release()
				must(t, <-unstaged, <-removed)
			})
		}
	}
}

func TestDelete_WaitsNoLongerThan(t *testing.T) {
	staged := func(t *testing.T, wait time.Duration) (*drivertest.Bed, *testVolume) {
		t.Helper()
		b := drivertest.ForTest(t, drivertest.Options{UnstageWait: wait})
		v := mustVolume(t, b, "vol1", gib, mountCap("ext4", writer))
		must(t, v.Stage(t.Context()), v.mark(t.Context(), "precious"))
		return b, v
	}
	t.Run("it is told to", func(t *testing.T) {
		_, v := staged(t, 100*time.Millisecond)
		wantCode(t, v.Remove(t.Context()), codes.FailedPrecondition)
		must(t, v.checkMark(t.Context(), "precious"))
	})
	t.Run("the caller", func(t *testing.T) {
		_, v := staged(t, time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		wantCode(t, v.Remove(ctx), codes.DeadlineExceeded)
		must(t, v.checkMark(t.Context(), "precious"))
	})
	t.Run("the driver runs", func(t *testing.T) {
		b, v := staged(t, time.Hour)
		removed := removal(t.Context(), t, v)
		must(t, b.Driver.Stop(t.Context()))
		if code := status.Code(<-removed); code != codes.Unavailable {
			t.Errorf("answers %v", code)
		}
		must(t, v.checkMark(t.Context(), "precious"))
	})
}
