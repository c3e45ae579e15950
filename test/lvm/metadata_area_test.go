package lvm

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmtest"
)

// A volume group whose metadata area is full has free extents, and takes no
// volume all the same. That is a lack of space like any other: the claim must go
// to another node.
func TestMetadataArea_FullIsNoSpace(t *testing.T) {
	r := lvmtest.NewReal(t, disks(), lvm.Options{})
	r.AddGroup(t, "vgA", 4*mib, 1)
	c := r.NewClient(t, lvm.VolumeGroupSelector{Name: "vgA"})
	var tags []string // half the area holds some 500 KB
	for i := range 24 {
		tags = append(tags, fmt.Sprint(i)+strings.Repeat("x", 1000))
	}
	var last error
	made := 0
	for ; made < 50 && last == nil; made++ {
		ref := lvm.Ref{VolumeGroup: "vgA", Name: fmt.Sprint("v", made)}
		_, last = c.Create(t.Context(), lvm.CreateRequest{Ref: ref, SegmentType: lvm.SegLinear, SizeBytes: 4 * mib, Tags: tags})
	}
	if !errors.Is(last, lvm.ErrNoSpace) {
		t.Fatalf("after %d volumes: %v, want ErrNoSpace", made, last)
	}
	if err := c.Remove(t.Context(), lvm.Ref{VolumeGroup: "vgA", Name: "v0"}); err != nil {
		t.Errorf("removing makes room, but: %v", err)
	}
}
