package driver

import (
	"testing"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// Room that somebody made by hand is room, although no report has shown it yet.
func TestCreateVolume_AsksLVMBeforeItRefusesForSpace(t *testing.T) {
	w := newWorld(t, worldOptions{})
	hand := w.client(t)
	foreign := lvm.Ref{VolumeGroup: "vg-a", Name: "foreign"}
	if _, err := hand.Create(t.Context(), lvm.CreateRequest{Ref: foreign, SegmentType: lvm.SegLinear, SizeBytes: 4000 * mib}); err != nil {
		t.Fatal(err)
	}
	p := w.start(t)
	if _, err := p.lvm.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := hand.Remove(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	if _, err := p.controller.CreateVolume(t.Context(), createReq("pvc-1", "thick", 2*gib)); err != nil {
		t.Errorf("CreateVolume: %v", err)
	}
}
