package driver

import (
	"errors"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
)

func TestValidateSizes(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	for _, tt := range []struct {
		name string
		req  proto.Message
		ok   bool
	}{
		{"empty", &csi.CreateVolumeRequest{}, true},
		{"name at the limit", &csi.CreateVolumeRequest{Name: long(128)}, true},
		{"name above", &csi.CreateVolumeRequest{Name: long(129)}, false},
		{"nested string above", &csi.CreateVolumeRequest{VolumeCapabilities: []*csi.VolumeCapability{mountCapability(long(129))}}, false},
		{"oneof in a list is looked into", &csi.NodeStageVolumeRequest{VolumeCapability: mountCapability(long(129))}, false},
		{"path", &csi.NodeStageVolumeRequest{StagingTargetPath: "/" + long(2000)}, true},
		{"path above", &csi.NodeStageVolumeRequest{StagingTargetPath: "/" + long(4096)}, false},
		{"node ID", &csi.ControllerPublishVolumeRequest{NodeId: long(256)}, true},
		{"node ID above", &csi.ControllerPublishVolumeRequest{NodeId: long(257)}, false},
		{"parameters at the limit", &csi.CreateVolumeRequest{Parameters: map[string]string{"k": long(4095)}}, true},
		{"parameters above", &csi.CreateVolumeRequest{Parameters: map[string]string{"k": long(4096)}}, false},
		{"kubelet's volume context", &csi.NodePublishVolumeRequest{VolumeContext: map[string]string{"csi.storage.k8s.io/serviceAccount.tokens": long(9000)}}, true},
		{"mount flags above", &csi.NodeStageVolumeRequest{VolumeCapability: &csi.VolumeCapability{
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{MountFlags: []string{long(4000), long(97)}}},
		}}, false},
		{"topology above", &csi.GetCapacityRequest{AccessibleTopology: &csi.Topology{Segments: map[string]string{"k": long(5000)}}}, false},
	} {
		err := validateSizes(tt.req)
		if (err == nil) != tt.ok || err != nil && !errors.Is(err, errInvalid) {
			t.Errorf("%s: %v, want ok=%v", tt.name, err, tt.ok)
		}
	}
}

// FuzzCreateRequest feeds bytes as they come over the socket: whatever they
// are, the checks end, and what passes them can be asked of LVM.
func FuzzCreateRequest(f *testing.F) {
	w := newWorld(f, worldOptions{})
	client := w.client(f)
	d := w.driver(f, client)
	striped := createReq("a/b", "thick", mib)
	striped.Parameters = map[string]string{"pool": "thick", "layout": "striped", "stripes": "2", "stripeSize": "64Ki"}
	fs := createReq("pvc", "thin", gib)
	fs.VolumeCapabilities = []*csi.VolumeCapability{mountCapability("xfs")}
	fs.AccessibilityRequirements = &csi.TopologyRequirement{Requisite: []*csi.Topology{d.topology()}}
	for _, seed := range []*csi.CreateVolumeRequest{createReq("pvc-1", "thick", mib), striped, fs, {}} {
		data, err := proto.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		req := &csi.CreateVolumeRequest{}
		if proto.Unmarshal(data, req) != nil || validateSizes(req) != nil {
			return
		}
		r, err := d.parseCreate(req)
		if err != nil {
			if codeOf(methodCreate, err).String() == "Internal" {
				t.Fatalf("%v: Internal: %v", req, err)
			}
			return
		}
		if err := r.lvmRequest(testDriver, 4*mib).Validate(); err != nil {
			t.Fatalf("%v: LVM would refuse %+v: %v", req, r, err)
		}
	})
}
