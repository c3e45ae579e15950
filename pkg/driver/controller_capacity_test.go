package driver

import (
	"fmt"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

func TestGetCapacity(t *testing.T) {
	topology := func(node string) *csi.Topology {
		return &csi.Topology{Segments: map[string]string{testDriver + "/node": node}}
	}
	type request = csi.GetCapacityRequest
	for _, tt := range []struct {
		name                   string
		req                    *request
		code                   codes.Code
		available, least, most int64
	}{
		{"thick", &request{Parameters: map[string]string{"pool": "thick"}}, codes.OK, 4 * gib, 4 * mib, 4 * gib},
		{"thin", &request{Parameters: map[string]string{"pool": "thin"}}, codes.OK, 2 * gib, 4 * mib, 2 * gib},
		{"all pools", &request{}, codes.OK, 6 * gib, 4 * mib, 4 * gib},
		{"striped over both disks", &request{Parameters: map[string]string{"pool": "thick", "layout": "striped", "stripes": "2"}}, codes.OK, 4 * gib, 8 * mib, 4 * gib},
		{"more stripes than disks", &request{Parameters: map[string]string{"pool": "thick", "layout": "striped", "stripes": "3"}}, codes.OK, 4 * gib, 12 * mib, 0},
		{"mirrored", &request{Parameters: map[string]string{"pool": "thick", "layout": "raid1", "mirrors": "2"}}, codes.OK, 4 * gib, 4 * mib, 2*gib - 4*mib},
		{"xfs", &request{Parameters: map[string]string{"pool": "thick"}, VolumeCapabilities: []*csi.VolumeCapability{mountCapability("xfs")}}, codes.OK, 4 * gib, 300 * mib, 4 * gib},
		{"this node", &request{Parameters: map[string]string{"pool": "thick"}, AccessibleTopology: topology(testNode)}, codes.OK, 4 * gib, 4 * mib, 4 * gib},
		{"another node", &request{AccessibleTopology: topology("node-2")}, codes.OK, 0, 0, 0},
		{"a pool that is not here", &request{Parameters: map[string]string{"pool": "nosuch"}}, codes.OK, 0, 0, 0},
		{"a layout that the pool has not", &request{Parameters: map[string]string{"pool": "thin", "layout": "raid1", "mirrors": "2"}}, codes.OK, 0, 0, 0},
		{"a misspelt parameter", &request{Parameters: map[string]string{"pol": "thick"}}, codes.InvalidArgument, 0, 0, 0},
		{"an access mode that cannot be", &request{VolumeCapabilities: []*csi.VolumeCapability{{}}}, codes.InvalidArgument, 0, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, worldOptions{})
			p := w.start(t)
			before := len(p.lvm.Calls())
			resp, err := p.controller.GetCapacity(t.Context(), tt.req)
			wantCode(t, "GetCapacity", err, tt.code)
			if got := resp.GetAvailableCapacity(); got != tt.available {
				t.Errorf("available %d, want %d", got, tt.available)
			}
			if got := resp.GetMinimumVolumeSize().GetValue(); got != tt.least {
				t.Errorf("minimum %d, want %d", got, tt.least)
			}
			if got := resp.GetMaximumVolumeSize().GetValue(); got != tt.most {
				t.Errorf("maximum %d, want %d", got, tt.most)
			}
			if calls := p.lvm.Calls()[before:]; len(calls) > 0 {
				t.Errorf("LVM was called: %v", calls)
			}
		})
	}
}

// What is said to be the maximum can be made, and one byte more cannot.
func TestGetCapacity_MaximumIsTrue(t *testing.T) {
	for _, params := range []map[string]string{
		{"pool": "thick"}, {"pool": "thin"},
		{"pool": "thick", "layout": "striped", "stripes": "2"},
		{"pool": "thick", "layout": "raid1", "mirrors": "2"},
	} {
		for _, reserve := range []int64{0, gib + mib} {
			t.Run(fmt.Sprint(params, reserve), func(t *testing.T) {
				w := newWorld(t, worldOptions{})
				w.setPool(params["pool"], func(p *poolconfig.Pool) { p.ReserveBytes = reserve })
				// Disks of different sizes make it less simple.
				if err := w.machine.ExtendGroup("vg-a", lvmfake.Disk{SizeBytes: gib + 12*mib}); err != nil {
					t.Fatal(err)
				}
				p := w.start(t)
				mustCreate(t, p, createReq("other", params["pool"], 100*mib))
				resp, err := p.controller.GetCapacity(t.Context(), &csi.GetCapacityRequest{Parameters: params})
				if err != nil {
					t.Fatal(err)
				}
				most := resp.GetMaximumVolumeSize().GetValue()
				req := createReq("v", "", most+1)
				req.Parameters = params
				// For mirrors it is a lower bound: a copy that spans disks may be larger.
				if params["layout"] != "raid1" {
					_, err = p.controller.CreateVolume(t.Context(), req)
					wantCode(t, "CreateVolume of a byte more", err, codes.ResourceExhausted)
				}
				req.CapacityRange.RequiredBytes = most
				v := mustCreate(t, p, req)
				if v.GetCapacityBytes() != most {
					t.Errorf("size %d, want %d", v.GetCapacityBytes(), most)
				}
			})
		}
	}
}
