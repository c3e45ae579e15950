package driver

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
)

// model is what a caller knows: which volumes it was told exist, and which
// calls ended in doubt.
type model struct {
	t       *testing.T
	w       *world
	p       *process
	volumes map[string]*csi.Volume // by name
	pools   map[string]string      // name -> pool that was asked for
	doubt   map[string]bool        // names whose last call did not say how it ended
}

// Any order of creations, deletions, restarts, reboots and crashes: what was
// answered is there, what was deleted is gone, nothing is doubled or leaked.
func TestModel_AnyOrderOfCalls(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, worldOptions{DiskBytes: 256 * mib})
		empty := w.look(t)
		m := &model{t: t, w: w, p: w.start(t), volumes: map[string]*csi.Volume{}, pools: map[string]string{}, doubt: map[string]bool{}}
		rt.Repeat(map[string]func(*rapid.T){
			"create":  m.create,
			"delete":  m.delete,
			"restart": m.restart,
			"crash":   m.crash,
			"":        m.check,
		})
		for name := range m.pools {
			m.settle(rt, name)
		}
		if diff := cmp.Diff(empty, w.look(t)); diff != "" {
			rt.Fatalf("left behind (-before +after)\n%s", diff)
		}
		m.p.stop()
	})
}

func (m *model) name(rt *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "snapshot-c", "d/e"}).Draw(rt, "name")
}

func (m *model) create(rt *rapid.T) {
	name := m.name(rt)
	pool, asked := m.pools[name]
	if !asked {
		pool = rapid.SampledFrom([]string{"thick", "thin"}).Draw(rt, "pool")
	}
	size := rapid.Int64Range(1, 200).Draw(rt, "MiB") * mib
	resp, err := m.p.controller.CreateVolume(m.t.Context(), createReq(name, pool, size))
	old := m.volumes[name]
	switch status.Code(err) {
	case codes.OK:
		if old != nil && old.GetVolumeId() != resp.GetVolume().GetVolumeId() {
			rt.Fatalf("%s was %v and is %v", name, old, resp.GetVolume())
		}
		m.volumes[name], m.pools[name] = resp.GetVolume(), pool
		delete(m.doubt, name)
	case codes.AlreadyExists:
		if !m.doubt[name] && (old == nil || size <= old.GetCapacityBytes()) {
			rt.Fatalf("create %s, %d bytes: %v; known is %v", name, size, err, old)
		}
	case codes.ResourceExhausted:
		if old != nil {
			rt.Fatalf("create %s again: %v", name, err)
		}
	case codes.Unavailable, codes.Aborted:
		if m.p.lvm.Crashed() {
			m.pools[name], m.doubt[name] = pool, true
		}
	default:
		rt.Fatalf("create %s: %v", name, err)
	}
}

func (m *model) delete(rt *rapid.T) {
	name := m.name(rt)
	if v := m.volumes[name]; v != nil {
		_, err := m.p.controller.DeleteVolume(m.t.Context(), &csi.DeleteVolumeRequest{VolumeId: v.GetVolumeId()})
		switch {
		case err == nil:
			delete(m.volumes, name)
			delete(m.pools, name)
			delete(m.doubt, name)
		case m.p.lvm.Crashed():
			delete(m.volumes, name) // it may be gone, or not
			m.doubt[name] = true
		default:
			rt.Fatalf("delete %s: %v", name, err)
		}
	}
}

func (m *model) restart(rt *rapid.T) {
	m.p.stop()
	receive(m.t, m.p.served, "end of Serve")
	if rapid.Bool().Draw(rt, "reboot") {
		if err := m.w.machine.Reboot(); err != nil {
			rt.Fatal(err)
		}
	}
	m.p = m.w.start(m.t)
}

// crash lets the process die at one of its next steps; a restart follows sooner or later.
func (m *model) crash(rt *rapid.T) {
	var left atomic.Int64
	left.Store(int64(rapid.IntRange(1, 6).Draw(rt, "steps")))
	m.p.lvm.SetHook(func(context.Context, lvmfake.Call) error {
		if left.Add(-1) <= 0 {
			return lvmfake.ErrCrash
		}
		return nil
	})
}

// check compares what the caller knows with what is there.
func (m *model) check(rt *rapid.T) {
	resp, err := m.p.controller.ListVolumes(m.t.Context(), &csi.ListVolumesRequest{})
	// Also between two actions: the driver's chores take steps of their own.
	if m.p.lvm.Crashed() {
		m.restart(rt)
		resp, err = m.p.controller.ListVolumes(m.t.Context(), &csi.ListVolumesRequest{})
	}
	if err != nil {
		rt.Fatal(err)
	}
	listed := map[string]int64{}
	for _, e := range resp.GetEntries() {
		listed[e.GetVolume().GetVolumeId()] = e.GetVolume().GetCapacityBytes()
	}
	known := 0
	for name, v := range m.volumes {
		if m.doubt[name] {
			continue
		}
		known++
		if listed[v.GetVolumeId()] != v.GetCapacityBytes() {
			rt.Fatalf("%s should be there with %d bytes; listed are %v", name, v.GetCapacityBytes(), listed)
		}
	}
	if most := known + len(m.doubt); len(listed) > most {
		rt.Fatalf("%d volumes are listed, at most %d were asked for", len(listed), most)
	}
}

// settle makes sure, as a caller would, that a name is gone.
func (m *model) settle(rt *rapid.T, name string) {
	m.p.lvm.SetHook(nil)
	lv, err := volumeNameFor(name)
	if err != nil {
		rt.Fatal(err)
	}
	id := fmt.Sprintf("%s/%s", map[string]string{"thick": "vg-a", "thin": "vg-b"}[m.pools[name]], lv)
	for {
		_, err := m.p.controller.DeleteVolume(m.t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
		switch {
		case err == nil:
			return
		case m.p.lvm.Crashed():
			m.restart(rt)
		case status.Code(err) != codes.Aborted:
			rt.Fatalf("delete %s: %v", id, err)
		}
	}
}
