// Package onegroup has what the tests on a single volume group, vgA, share.
package onegroup

import (
	"fmt"
	"testing"

	"github.com/csi-local/csi-local/pkg/lvm"
)

const mib = 1 << 20

// Ref names a volume of vgA.
func Ref(format string, args ...any) lvm.Ref {
	return lvm.Ref{VolumeGroup: "vgA", Name: fmt.Sprintf(format, args...)}
}

// Linear asks for a volume of one extent of 4 MiB, tagged "ours".
func Linear(r lvm.Ref) lvm.CreateRequest {
	return lvm.CreateRequest{Ref: r, SegmentType: lvm.SegLinear, SizeBytes: 4 * mib, Tags: []string{"ours"}}
}

// Refreshed is vgA as LVM has it now; it must be well.
func Refreshed(t *testing.T, c *lvm.Client) lvm.VolumeGroup {
	t.Helper()
	state, err := c.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	vg, ok := state.VolumeGroup("vgA")
	if !ok || len(state.Problems) != 0 {
		t.Fatalf("problems %v", state.Problems)
	}
	return vg
}
