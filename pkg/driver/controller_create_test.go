package driver

import (
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
)

func TestCreateVolume_AnswersSizeContextAndTopology(t *testing.T) {
	for _, tt := range []struct {
		name       string
		params     map[string]string
		capability *csi.VolumeCapability
		wantBytes  int64
		want       map[string]string
	}{
		{"block", map[string]string{"pool": "thick"}, blockCapability(), 12 * mib,
			map[string]string{"pool": "thick", "layout": "linear", "size": "12582912"}},
		{"the pool's own file system", map[string]string{"pool": "thick"}, mountCapability(""), 12 * mib,
			map[string]string{"pool": "thick", "layout": "linear", "size": "12582912", "filesystem": "ext4"}},
		{"the class's file system, for a caller that leaves it there",
			map[string]string{"pool": "thick", "csi.storage.k8s.io/fstype": "xfs"}, mountCapability(""), 300 * mib,
			map[string]string{"pool": "thick", "layout": "linear", "size": "314572800", "filesystem": "xfs"}},
		{"mkfs options", map[string]string{"pool": "thick", "mkfsOptions": "-m 0"}, mountCapability("ext4"), 12 * mib,
			map[string]string{"pool": "thick", "layout": "linear", "size": "12582912", "filesystem": "ext4", "mkfsOptions": "-m 0"}},
		{"thin", map[string]string{"pool": "thin"}, blockCapability(), 12 * mib,
			map[string]string{"pool": "thin", "layout": "thin", "size": "12582912"}},
		{"striped", map[string]string{"pool": "thick", "layout": "striped", "stripes": "2"}, blockCapability(), 16 * mib,
			map[string]string{"pool": "thick", "layout": "striped", "stripes": "2", "size": "16777216"}},
		{"raid1", map[string]string{"pool": "thick", "layout": "raid1", "mirrors": "2"}, blockCapability(), 12 * mib,
			map[string]string{"pool": "thick", "layout": "raid1", "mirrors": "2", "size": "12582912"}},
		{"keys of Kubernetes are tolerated", map[string]string{"pool": "thick", "csi.storage.k8s.io/pvc/name": "data"}, blockCapability(), 12 * mib,
			map[string]string{"pool": "thick", "layout": "linear", "size": "12582912"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, worldOptions{})
			p := w.start(t)
			req := createReq("pvc-1", "", 9*mib)
			req.Parameters, req.VolumeCapabilities = tt.params, []*csi.VolumeCapability{tt.capability}
			before := len(p.lvm.Calls())
			got := mustCreate(t, p, req)
			if calls := p.lvm.Calls()[before:]; len(calls) != 2 || calls[0].Op != lvmfake.OpCreate {
				t.Errorf("LVM was called with %v, want one Create", calls)
			}
			want := &csi.Volume{
				VolumeId: got.GetVolumeId(), CapacityBytes: tt.wantBytes, VolumeContext: tt.want,
				AccessibleTopology: []*csi.Topology{{Segments: map[string]string{testDriver + "/node": testNode}}},
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			again := mustCreate(t, p, req)
			if diff := cmp.Diff(got, again, protocmp.Transform()); diff != "" {
				t.Errorf("the repeated call answers otherwise (-first +second)\n%s", diff)
			}
			mustDelete(t, p, got.GetVolumeId())
			mustDelete(t, p, got.GetVolumeId())
		})
	}
}

// d2iq-archive/csilvm#101, intel/pmem-csi#399: the limit must bind. metal-stack/csi-driver-lvm#129:

// a volume that no file system fits on must not be made. Extents are 4 MiB.

func TestCreateVolume_SizeWindows(t *testing.T) {
	striped := map[string]string{"pool": "thick", "layout": "striped", "stripes": "2"}
	raid1 := map[string]string{"pool": "thick", "layout": "raid1", "mirrors": "2"}
	thick, thin := map[string]string{"pool": "thick"}, map[string]string{"pool": "thin"}
	for _, tt := range []struct {
		name            string
		params          map[string]string
		fsType          string // "" for block
		required, limit int64
		wantCode        codes.Code
		wantBytes       int64
	}{
		{"no multiple in the window", thick, "", 5 * mib, 7 * mib, codes.OutOfRange, 0},
		{"one multiple in the window", thick, "", 5 * mib, 8 * mib, codes.OK, 8 * mib},
		{"exact", thick, "", 8 * mib, 8 * mib, codes.OK, 8 * mib},
		{"limit alone is rounded down", thick, "", 0, 6 * mib, codes.OK, 4 * mib},
		{"nothing at all", thick, "", 0, 0, codes.OK, gib},
		{"wrong way round", thick, "", 8 * mib, 4 * mib, codes.InvalidArgument, 0},
		{"negative", thick, "", -1, 0, codes.InvalidArgument, 0},
		{"limit below one extent", thick, "", 0, mib, codes.OutOfRange, 0},
		{"one byte", thick, "", 1, 0, codes.OK, 4 * mib},
		{"stripes double the unit", striped, "", 5 * mib, 7 * mib, codes.OutOfRange, 0},
		{"stripes fit", striped, "", 5 * mib, 8 * mib, codes.OK, 8 * mib},
		{"stripes, limit below one row", striped, "", 0, 6 * mib, codes.OutOfRange, 0},
		{"mirrors do not change the unit", raid1, "", 5 * mib, 8 * mib, codes.OK, 8 * mib},
		{"thin", thin, "", 5 * mib, 7 * mib, codes.OutOfRange, 0},
		{"xfs is raised", thick, "xfs", 100 * mib, 0, codes.OK, 300 * mib},
		{"xfs cannot be raised", thick, "xfs", 100 * mib, 100 * mib, codes.OutOfRange, 0},
		{"btrfs is raised", thick, "btrfs", 64 * mib, 0, codes.OK, (capacity.FilesystemBtrfs.MinimumBytes() + 4*mib - 1) / (4 * mib) * (4 * mib)},
		{"btrfs cannot be raised", thick, "btrfs", 64 * mib, 64 * mib, codes.OutOfRange, 0},
		{"ext4 in one extent", thick, "ext4", 4 * mib, 4 * mib, codes.OK, 4 * mib},
		{"near the end of int64", thick, "", 1<<63 - 1, 0, codes.OutOfRange, 0},
		{"larger than the pool", thick, "", 5 * gib, 0, codes.ResourceExhausted, 0},
		{"larger than the thin pool", thin, "", 5 * gib, 0, codes.ResourceExhausted, 0},
		{"larger than any two disks hold mirrored", raid1, "", 2 * gib, 0, codes.ResourceExhausted, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, worldOptions{})
			p := w.start(t)
			before := w.look(t)
			req := createReq("pvc-1", "", tt.required)
			req.Parameters, req.CapacityRange.LimitBytes = tt.params, tt.limit
			if tt.fsType != "" {
				req.VolumeCapabilities = []*csi.VolumeCapability{mountCapability(tt.fsType)}
			}
			resp, err := p.controller.CreateVolume(t.Context(), req)
			wantCode(t, "CreateVolume", err, tt.wantCode)
			if err != nil {
				if diff := cmp.Diff(before, w.look(t)); diff != "" {
					t.Errorf("a refused call changed something (-before +after)\n%s", diff)
				}
				return
			}
			if got := resp.GetVolume().GetCapacityBytes(); got != tt.wantBytes {
				t.Errorf("size %d, want %d", got, tt.wantBytes)
			}
		})
	}
}

// IBM/ibm-spectrum-scale-csi#598, openebs/lvm-localpv#108: what is misspelt must

// be an error that names it, not another kind of volume.

func TestCreateVolume_RefusesWhatItCannotMeet(t *testing.T) {
	elsewhere := &csi.Topology{Segments: map[string]string{testDriver + "/node": "node-2"}}
	here := &csi.Topology{Segments: map[string]string{testDriver + "/node": testNode}}
	zone := &csi.Topology{Segments: map[string]string{testDriver + "/node": testNode, "zone": "a"}}
	mode := func(m csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
		c := blockCapability()
		c.AccessMode.Mode = m
		return c
	}
	type request = csi.CreateVolumeRequest
	for _, tt := range []struct {
		name string
		req  *request // laid over a good one
		code codes.Code
		says string
	}{
		{"no name", &request{Name: "-"}, codes.InvalidArgument, "name is empty"},
		{"control characters", &request{Name: "a\x00b"}, codes.InvalidArgument, "control characters"},
		{"long name", &request{Name: strings.Repeat("a", 129)}, codes.InvalidArgument, "129 bytes"},
		{"misspelt pool key", &request{Parameters: map[string]string{"pol": "thick"}}, codes.InvalidArgument, `"pol"`},
		{"wrong case", &request{Parameters: map[string]string{"Pool": "thick"}}, codes.InvalidArgument, `"Pool"`},
		{"unknown key", &request{Parameters: map[string]string{"pool": "thick", "thin": "true"}}, codes.InvalidArgument, `"thin"`},
		{"no pool", &request{Parameters: map[string]string{"layout": "linear"}}, codes.InvalidArgument, `"pool"`},
		{"unknown pool", &request{Parameters: map[string]string{"pool": "thck"}}, codes.ResourceExhausted, `pool "thck" is not configured on node "node-1"; did you mean thick?`},
		{"layout in a thin pool", &request{Parameters: map[string]string{"pool": "thin", "layout": "striped", "stripes": "2"}}, codes.InvalidArgument, "layout"},
		{"laxer wipe than the pool's", &request{Parameters: map[string]string{"pool": "thick", "wipe": "unsafe-none"}}, codes.InvalidArgument, "wipe"},
		{"no access mode", &request{VolumeCapabilities: []*csi.VolumeCapability{mode(csi.VolumeCapability_AccessMode_UNKNOWN)}}, codes.InvalidArgument, "access mode"},
		{"many writers", &request{VolumeCapabilities: []*csi.VolumeCapability{mode(csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER)}}, codes.InvalidArgument, "ReadWriteOncePod"},
		{"many readers", &request{VolumeCapabilities: []*csi.VolumeCapability{mode(csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY)}}, codes.InvalidArgument, "ReadWriteOnce"},
		{"no access type", &request{VolumeCapabilities: []*csi.VolumeCapability{{AccessMode: blockCapability().GetAccessMode()}}}, codes.InvalidArgument, "access type"},
		{"block and file system", &request{VolumeCapabilities: []*csi.VolumeCapability{blockCapability(), mountCapability("")}}, codes.InvalidArgument, "two volumes"},
		{"two file systems", &request{VolumeCapabilities: []*csi.VolumeCapability{mountCapability("ext4"), mountCapability("xfs")}}, codes.InvalidArgument, "two file systems"},
		{"unknown file system", &request{VolumeCapabilities: []*csi.VolumeCapability{mountCapability("zfs")}}, codes.InvalidArgument, "ext4, xfs, btrfs"},
		{"from a snapshot", &request{VolumeContentSource: &csi.VolumeContentSource{}}, codes.InvalidArgument, "dataSource"},
		{"attributes class", &request{MutableParameters: map[string]string{"iops": "100"}}, codes.InvalidArgument, "iops"},
		{"another node", &request{AccessibilityRequirements: &csi.TopologyRequirement{Requisite: []*csi.Topology{elsewhere}}}, codes.ResourceExhausted, `"node-1"`},
		{"a key of somebody else", &request{AccessibilityRequirements: &csi.TopologyRequirement{Requisite: []*csi.Topology{zone}}}, codes.ResourceExhausted, `"node-1"`},
		{"empty requirements", &request{AccessibilityRequirements: &csi.TopologyRequirement{}}, codes.InvalidArgument, "neither"},
		{"this node among others", &request{AccessibilityRequirements: &csi.TopologyRequirement{Requisite: []*csi.Topology{elsewhere, here}}}, codes.OK, ""},
		{"a mere preference", &request{AccessibilityRequirements: &csi.TopologyRequirement{Preferred: []*csi.Topology{elsewhere}}}, codes.OK, ""},
		{"long parameter map", &request{Parameters: map[string]string{"pool": "thick", "csi.storage.k8s.io/x": strings.Repeat("a", 5000)}}, codes.InvalidArgument, "4096"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, worldOptions{})
			p := w.start(t)
			before := len(p.lvm.Calls())
			_, err := p.controller.CreateVolume(t.Context(), overlay(tt.req))
			wantCode(t, "CreateVolume", err, tt.code)
			if !strings.Contains(status.Convert(err).Message(), tt.says) {
				t.Errorf("message %q does not say %q", status.Convert(err).Message(), tt.says)
			}
			if calls := len(p.lvm.Calls()) - before; err != nil && calls != 0 {
				t.Errorf("LVM was called %d times", calls)
			}
		})
	}
}

// overlay fills what is not set in req from a good request; the name "-" becomes empty.

func overlay(req *csi.CreateVolumeRequest) *csi.CreateVolumeRequest {
	good := createReq("pvc-1", "thick", 8*mib)
	switch req.GetName() {
	case "":
		req.Name = good.GetName()
	case "-":
		req.Name = ""
	}
	if req.Parameters == nil {
		req.Parameters = good.GetParameters()
	}
	if req.VolumeCapabilities == nil {
		req.VolumeCapabilities = good.GetVolumeCapabilities()
	}
	req.CapacityRange = good.GetCapacityRange()
	return req
}

func TestCreateVolume_SameNameMustMeanTheSame(t *testing.T) {
	base := func() *csi.CreateVolumeRequest { return createReq("pvc-1", "thick", 8*mib) }
	with := func(change func(*csi.CreateVolumeRequest)) *csi.CreateVolumeRequest {
		req := base()
		change(req)
		return req
	}
	for _, tt := range []struct {
		name string
		req  *csi.CreateVolumeRequest
		want codes.Code
	}{
		{"the same", base(), codes.OK},
		{"smaller, without limit", with(func(r *csi.CreateVolumeRequest) { r.CapacityRange.RequiredBytes = mib }), codes.OK},
		{"no size", with(func(r *csi.CreateVolumeRequest) { r.CapacityRange = nil }), codes.OK},
		{"larger", with(func(r *csi.CreateVolumeRequest) { r.CapacityRange.RequiredBytes = 9 * mib }), codes.AlreadyExists},
		{"limit below", with(func(r *csi.CreateVolumeRequest) { r.CapacityRange = &csi.CapacityRange{LimitBytes: 4 * mib} }), codes.AlreadyExists},
		{"another pool", with(func(r *csi.CreateVolumeRequest) { r.Parameters = map[string]string{"pool": "thin"} }), codes.AlreadyExists},
		{"another layout", with(func(r *csi.CreateVolumeRequest) {
			r.Parameters = map[string]string{"pool": "thick", "layout": "striped", "stripes": "2"}
		}), codes.AlreadyExists},
		{"another access type", with(func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities = []*csi.VolumeCapability{mountCapability("")} }), codes.AlreadyExists},
		{"the layout by its name", with(func(r *csi.CreateVolumeRequest) {
			r.Parameters = map[string]string{"pool": "thick", "layout": "linear"}
		}), codes.OK},
		{"a stricter wipe", with(func(r *csi.CreateVolumeRequest) { r.Parameters = map[string]string{"pool": "thick", "wipe": "zero"} }), codes.OK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, worldOptions{})
			p := w.start(t)
			mustCreate(t, p, base())
			before := w.look(t)
			_, err := p.controller.CreateVolume(t.Context(), tt.req)
			wantCode(t, "CreateVolume", err, tt.want)
			if diff := cmp.Diff(before, w.look(t)); diff != "" {
				t.Errorf("the second call changed something (-before +after)\n%s", diff)
			}
		})
	}
}

func TestCreateVolume_TakesEveryNameOfTheSpecification(t *testing.T) {
	w := newWorld(t, worldOptions{})
	p := w.start(t)
	same := strings.Repeat("n", 120)
	ids := map[string]string{}
	for _, name := range []string{strings.Repeat("a", 128), "snapshot-1", "x_tdata", "pvc 1", "päc", "a/b", "-x", "..", same + "1", same + "2", "a\tb"} {
		v := mustCreate(t, p, createReq(name, "thick", 4*mib))
		if other, taken := ids[v.GetVolumeId()]; taken || len(v.GetVolumeId()) > 128 {
			t.Errorf("%q has ID %q, %d bytes, also of %q", name, v.GetVolumeId(), len(v.GetVolumeId()), other)
		}
		ids[v.GetVolumeId()] = name
	}
	for id := range ids {
		mustDelete(t, p, id)
	}
}

// A fixed timeout that kills lvcreate leaves half a volume: harvester/harvester#11728.

// eventually repeats a call for as long as it is told to.

// One name is one volume, whatever pools two calls at once ask for.

// The bytes of a volume that LVM has made and nobody was told of yet count once.

// hundred makes 100 calls at once, each repeated while it is Aborted, and

// returns the IDs that were answered.

// LVM knows nothing of the reserve and of the overprovision ratio: calls at once

// must not overrun them, and must not stop short of them either.

// After a reboot nobody but us activates a thin pool, and an inactive one does

// not say how full it is.

// A linear volume under the thin pool's name is no pool: harvester/harvester#11728.

// What LVM finds out after the driver's own check comes out with the right code too.
