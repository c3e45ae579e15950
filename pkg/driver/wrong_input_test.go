package driver_test

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"

	"github.com/csi-local/csi-local/internal/doctest"
	"github.com/csi-local/csi-local/pkg/driver/drivertest"
	"github.com/csi-local/csi-local/pkg/lvm/lvmfake"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

// The page for users says what the driver answers to each wrong input, and nothing is
// left behind. Its text is what stands in the event on the claim or the pod.
func TestWrongInput_TheDriversAnswersAreDocumented(t *testing.T) {
	ssd, hdd := drivertest.ThickPool("pool-ssd", "vgA"), drivertest.ThickPool("pool-hdd", "vgB")
	hdd.MaxInlineSizeBytes = 0
	b := drivertest.ForTest(t, drivertest.Options{Pools: []poolconfig.Pool{ssd, hdd}, Groups: []lvmfake.Group{
		{Name: "vgA", Disks: []lvmfake.Disk{{SizeBytes: 4 << 30}}}, {Name: "vgB", Disks: []lvmfake.Disk{{SizeBytes: 4 << 30}}},
	}})
	free, err := freeExtents(t.Context(), b)
	must(t, err)
	doc := doctest.Read(t, "../../docs/wrong-input.md")
	got := map[string]string{}
	for input, request := range wrongClaims() {
		got[input] = answer(b.Controller.CreateVolume(t.Context(), request))
	}
	if diff := cmp.Diff(doctest.Column(t, doc, "## The driver, when the volume is made", 1), got); diff != "" {
		t.Errorf("(-docs +driver)\n%s", diff)
	}
	got = map[string]string{}
	for input, request := range wrongLimits() {
		got[input] = answer(b.Controller.CreateVolume(t.Context(), request))
	}
	if diff := cmp.Diff(doctest.Column(t, doc, "## The driver, asked with a limit", 1), got); diff != "" {
		t.Errorf("(-docs +driver)\n%s", diff)
	}
	got = map[string]string{}
	for input, wrong := range wrongMounts() {
		v := newInline(b, "csi-1")
		v.attributes["pool"] = "pool-ssd"
		wrong(v)
		got[input] = answer("", v.publish(t.Context()))
	}
	if diff := cmp.Diff(doctest.Column(t, doc, "## The driver, when the pod starts", 1), got); diff != "" {
		t.Errorf("(-docs +driver)\n%s", diff)
	}
	if left, err := freeExtents(t.Context(), b); err != nil || left != free {
		t.Errorf("%d extents are free, before %d; %v", left, free, err)
	}
	got = map[string]string{"a bound claim is raised to more than the pool has left": answer(growTooFar(t, b))}
	if diff := cmp.Diff(doctest.Column(t, doc, "## The driver, when the volume is expanded", 1), got); diff != "" {
		t.Errorf("(-docs +driver)\n%s", diff)
	}
}

func answer(_ any, err error) string {
	if err == nil {
		return "nothing: it was accepted"
	}
	return err.Error()
}

// newRequest is what csi-provisioner asks for 1 GiB of a class, with a change.
func newRequest(change func(*csi.CreateVolumeRequest)) *csi.CreateVolumeRequest {
	r := &csi.CreateVolumeRequest{
		Name: "pvc-1", Parameters: map[string]string{"pool": "pool-ssd"}, CapacityRange: &csi.CapacityRange{RequiredBytes: 1 << 30},
		VolumeCapabilities: []*csi.VolumeCapability{mountCap("", writer)},
	}
	change(r)
	return r
}

func wrongLimits() map[string]*csi.CreateVolumeRequest {
	between := func(required, limit int64, c *csi.VolumeCapability) *csi.CreateVolumeRequest {
		return newRequest(func(r *csi.CreateVolumeRequest) {
			r.CapacityRange, r.VolumeCapabilities[0] = &csi.CapacityRange{RequiredBytes: required, LimitBytes: limit}, c
		})
	}
	return map[string]*csi.CreateVolumeRequest{
		"from 5Mi to 6Mi, as a block device: no whole extents fit": between(5<<20, 6<<20, blockCap(writer)),
		"from 100Mi to 100Mi, as xfs":                              between(100<<20, 100<<20, mountCap("xfs", writer)),
		"from 1Gi to 1Mi":                                          between(1<<30, 1<<20, mountCap("", writer)),
	}
}

// wrongClaims are what csi-provisioner asks for such claims.
func wrongClaims() map[string]*csi.CreateVolumeRequest {
	return map[string]*csi.CreateVolumeRequest{
		"claim with access mode `ReadWriteMany`": newRequest(func(r *csi.CreateVolumeRequest) {
			r.VolumeCapabilities[0].AccessMode.Mode = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
		}),
		"claim with a `dataSource`": newRequest(func(r *csi.CreateVolumeRequest) {
			r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: "v"}}}
		}),
		"class with `pool: pool-nvme`, which this node has not":                 newRequest(func(r *csi.CreateVolumeRequest) { r.Parameters["pool"] = "pool-nvme" }),
		"class with a misspelt parameter, `strips`":                             newRequest(func(r *csi.CreateVolumeRequest) { r.Parameters["strips"] = "2" }),
		"class with a value that there is not, `layout: raid5`":                 newRequest(func(r *csi.CreateVolumeRequest) { r.Parameters["layout"] = "raid5" }),
		"class with `csi.storage.k8s.io/fstype: ntfs`":                          newRequest(func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities[0] = mountCap("ntfs", writer) }),
		"class with an option of mkfs that is not allowed, `mkfsOptions: -d`":   newRequest(func(r *csi.CreateVolumeRequest) { r.Parameters["mkfsOptions"] = "-d" }),
		"class with `mountOptions: [ro, rw]`":                                   newRequest(func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities[0] = mountCap("", writer, "ro", "rw") }),
		"class with a mount option that would mount something else, `loop`":     newRequest(func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities[0] = mountCap("", writer, "loop") }),
		"class with `layout: striped` and more `stripes` than the pool's disks": newRequest(func(r *csi.CreateVolumeRequest) { r.Parameters["layout"], r.Parameters["stripes"] = "striped", "4" }),
	}
}

// wrongMounts are what kubelet asks for such pods.
func wrongMounts() map[string]func(*inlineVolume) {
	attribute := func(key, value string) func(*inlineVolume) {
		return func(v *inlineVolume) { v.attributes[key] = value }
	}
	return map[string]func(*inlineVolume){
		"inline volume without `size`":                                              func(v *inlineVolume) { delete(v.attributes, "size") },
		"inline volume with a `size` that cannot be read, `5 Gi`":                   attribute("size", "5 Gi"),
		"inline volume with a `size` of 2Gi, and the pool's `maxInlineSize` is 1Gi": attribute("size", "2Gi"),
		"inline volume in a pool without `maxInlineSize`":                           attribute("pool", "pool-hdd"),
		"inline volume without `pool`":                                              func(v *inlineVolume) { delete(v.attributes, "pool") },
		"inline volume with a misspelt attribute, `siez`":                           attribute("siez", "1Gi"),
		"inline volume with `mkfsOptions`":                                          attribute("mkfsOptions", "-m 0"),
	}
}

func growTooFar(t *testing.T, b *drivertest.Bed) (*csi.NodeExpandVolumeResponse, error) {
	t.Helper()
	v, err := newVolumeOf(t.Context(), b, "pvc-grows", 1<<30, mountCap("", writer), map[string]string{"pool": "pool-ssd"})
	must(t, err, v.Stage(t.Context()), v.Publish(t.Context(), "pod"))
	return b.Node.NodeExpandVolume(t.Context(), &csi.NodeExpandVolumeRequest{
		VolumeId: v.ID, VolumePath: v.Target("pod"), CapacityRange: &csi.CapacityRange{RequiredBytes: 1 << 40}, VolumeCapability: v.Cap,
	})
}
