package driver

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

// crashScenario is one mutating call and what comes before it.
type crashScenario struct {
	name   string
	params map[string]string
	wipe   capacity.WipePolicy
	used   bool // for deletion: the volume was handed out and written to
	reboot bool // the machine was rebooted before the call
	delete bool // the call is DeleteVolume, else CreateVolume
}

func crashScenarios() []crashScenario {
	thick, thin := map[string]string{"pool": "thick"}, map[string]string{"pool": "thin"}
	striped := map[string]string{"pool": "thick", "layout": "striped", "stripes": "2"}
	raid1 := map[string]string{"pool": "thick", "layout": "raid1", "mirrors": "2"}
	return []crashScenario{
		{name: "create linear", params: thick},
		{name: "create striped", params: striped},
		{name: "create raid1", params: raid1},
		{name: "create thin", params: thin},
		{name: "create thin after a reboot", params: thin, reboot: true},
		{name: "delete new", params: thick, delete: true},
		{name: "delete new thin", params: thin, delete: true},
		{name: "delete used, zero", params: thick, used: true, delete: true},
		{name: "delete used after a reboot", params: thick, used: true, reboot: true, delete: true},
		{name: "delete used, discard", params: thick, wipe: capacity.WipeDiscard, used: true, delete: true},
		{name: "delete used, no wipe", params: thick, wipe: capacity.WipeUnsafeNone, used: true, delete: true},
		{name: "delete used striped", params: striped, used: true, delete: true},
		{name: "delete used raid1", params: raid1, used: true, delete: true},
		{name: "delete used thin", params: thin, used: true, delete: true},
	}
}

// Small, because every point makes its own world.
const (
	crashDiskBytes   = 16 * mib
	crashVolumeBytes = 8 * mib
)

// prepare makes the world as it is before the call, and a driver that can make
// it. It does not serve, so that no chore of its own mixes with the call.
func (s crashScenario) prepare(t *testing.T) (*world, *controllerServer, *lvmfake.LVM) {
	t.Helper()
	w := newWorld(t, worldOptions{DiskBytes: crashDiskBytes, Devices: true})
	if s.wipe != "" {
		w.setPool("thick", func(p *poolconfig.Pool) { p.Wipe = s.wipe })
	}
	if s.delete {
		first := w.start(t)
		id := mustCreate(t, first, s.request()).GetVolumeId()
		if s.used {
			v := markUsed(t, first, id, "")
			fill(t, v.Path, v.SizeBytes)
		}
	}
	if s.reboot {
		if err := w.machine.Reboot(); err != nil {
			t.Fatal(err)
		}
	}
	client := w.client(t)
	return w, &controllerServer{Driver: w.driver(t, client)}, client
}

func (s crashScenario) request() *csi.CreateVolumeRequest {
	req := createReq("v", "", crashVolumeBytes)
	req.Parameters = s.params
	return req
}

// id is the volume's.
func (s crashScenario) id() string {
	return map[string]string{"thick": "vg-a/v", "thin": "vg-b/v"}[s.params["pool"]]
}

func (s crashScenario) call(t *testing.T, c *controllerServer) error {
	t.Helper()
	if s.delete {
		_, err := c.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: s.id()})
		return err
	}
	_, err := c.CreateVolume(t.Context(), s.request())
	return err
}

// countPoints makes the call without a crash and counts the moments at which there could be one.
func (s crashScenario) countPoints(t *testing.T) (points int64, after map[string]picture) {
	t.Helper()
	w, c, client := s.prepare(t)
	client.SetHook(func(context.Context, lvmfake.Call) error {
		points++
		return nil
	})
	if err := s.call(t, c); err != nil {
		t.Fatal(err)
	}
	return points, w.look(t)
}

// Whatever the moment at which the process dies, the repeated call ends as if
// nothing had happened, and creation and deletion leave nothing behind.
func TestCrash_RepeatedCallConverges(t *testing.T) {
	total := int64(0)
	for _, s := range crashScenarios() {
		points, want := s.countPoints(t)
		for _, reboot := range []bool{false, true} {
			for point := range points {
				t.Run(fmt.Sprintf("%s, point %d, reboot=%v", s.name, point, reboot), func(t *testing.T) {
					s.crashAt(t, point, reboot, want)
				})
				total++
			}
		}
	}
	t.Logf("%d crash points", total)
}

func (s crashScenario) crashAt(t *testing.T, point int64, reboot bool, want map[string]picture) {
	w, c, client := s.prepare(t)
	var seen atomic.Int64
	client.SetHook(func(context.Context, lvmfake.Call) error {
		if seen.Add(1) == point+1 {
			return lvmfake.ErrCrash
		}
		return nil
	})
	if err := s.call(t, c); err == nil || !client.Crashed() {
		t.Fatalf("the call: %v; want it to die at point %d", err, point)
	}
	if reboot {
		if err := w.machine.Reboot(); err != nil {
			t.Fatal(err)
		}
	}
	next := w.start(t)
	s.repeat(t, next)
	if diff := cmp.Diff(want, w.look(t)); diff != "" {
		t.Errorf("(-without a crash +with one)\n%s", diff)
	}
	if !s.delete {
		mustDelete(t, next, s.id())
	}
	free := w.look(t)["vg-a"]
	if free.FreeExtents != 2*crashDiskBytes/(4*mib) || len(free.Volumes) != 0 {
		t.Errorf("left behind: %+v", free)
	}
	if s.used && s.params["pool"] == "thick" && s.wipe != capacity.WipeUnsafeNone {
		all := mustCreate(t, next, createReq("all", "thick", 2*crashDiskBytes))
		if n := dirty(t, markUsed(t, next, all.GetVolumeId(), "").Path); n > 0 {
			t.Errorf("the next tenant reads %d bytes of the first one's", n)
		}
	}
}

// repeat calls until it is OK; Aborted is allowed while the resumed deletion runs.
func (s crashScenario) repeat(t *testing.T, p *process) {
	t.Helper()
	for {
		err := s.call(t, &controllerServer{Driver: p.Driver})
		if err == nil {
			return
		}
		if codeOf("", err) != codes.Aborted {
			t.Fatalf("the repeated call: %v", err)
		}
	}
}
