package driver

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"pgregory.net/rapid"

	"github.com/csi-local/csi-local/pkg/lvm"
)

func listAll(t *testing.T, p *process, pageSize int32) []string {
	t.Helper()
	var ids []string
	token := ""
	for {
		resp, err := p.controller.ListVolumes(t.Context(), &csi.ListVolumesRequest{MaxEntries: pageSize, StartingToken: token})
		if err != nil {
			t.Fatal(err)
		}
		if pageSize > 0 && len(resp.GetEntries()) > int(pageSize) {
			t.Fatalf("%d entries, want at most %d", len(resp.GetEntries()), pageSize)
		}
		for _, e := range resp.GetEntries() {
			ids = append(ids, e.GetVolume().GetVolumeId())
		}
		if token = resp.GetNextToken(); token == "" {
			return ids
		}
	}
}

func TestListVolumes_PagesAddUp(t *testing.T) {
	w := newWorld(t, worldOptions{})
	p := w.start(t)
	var want []string
	for i := range 11 {
		want = append(want, mustCreate(t, p, createReq(fmt.Sprintf("pvc-%d", i), []string{"thick", "thin"}[i%2], 4*mib)).GetVolumeId())
	}
	inline := []string{"csi-local/driver=" + testDriver, "csi-local/name=csi-1", "csi-local/pool=thick", "csi-local/state=new", "csi-local/pod=uid"}
	for name, tags := range map[string][]string{"foreign": nil, "csi-1": inline} {
		_, err := p.lvm.Create(t.Context(), lvm.CreateRequest{Ref: lvm.Ref{VolumeGroup: "vg-a", Name: name}, SegmentType: lvm.SegLinear, SizeBytes: mib, Tags: tags})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	before := len(p.lvm.Calls())
	for _, size := range []int32{0, 1, 2, 5, 10, 11, 12} {
		if diff := cmp.Diff(want, listAll(t, p, size)); diff != "" {
			t.Errorf("pages of %d (-want +got)\n%s", size, diff)
		}
	}
	if calls := p.lvm.Calls()[before:]; len(calls) > 0 {
		t.Errorf("listing called LVM: %v", calls)
	}
}

// A token names a place in the order, so what is made and deleted between two
// pages neither repeats nor hides a volume that is there all the time.
func TestListVolumes_TokensStayGood(t *testing.T) {
	w := newWorld(t, worldOptions{})
	p := w.start(t)
	rapid.Check(t, func(rt *rapid.T) {
		var lasting []string
		present := map[string]bool{}
		for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, 20), 1, 10, rapid.ID).Draw(rt, "volumes") {
			id := mustCreate(t, p, createReq(fmt.Sprintf("pvc-%02d", i), "thick", 4*mib)).GetVolumeId()
			present[id] = true
		}
		doomed := map[string]bool{}
		for id := range present {
			if rapid.Bool().Draw(rt, "doomed "+id) {
				doomed[id] = true
			} else {
				lasting = append(lasting, id)
			}
		}
		seen := map[string]int{}
		token := ""
		for page := 0; ; page++ {
			resp, err := p.controller.ListVolumes(t.Context(), &csi.ListVolumesRequest{MaxEntries: 2, StartingToken: token})
			if err != nil {
				rt.Fatal(err)
			}
			for _, e := range resp.GetEntries() {
				seen[e.GetVolume().GetVolumeId()]++
			}
			if token = resp.GetNextToken(); token == "" {
				break
			}
			// The volume that the token names is deleted first.
			last := strings.TrimPrefix(token, tokenPrefix)
			for id := range doomed {
				if id == last || rapid.Bool().Draw(rt, "delete "+id) {
					mustDelete(t, p, id)
					delete(doomed, id)
					delete(present, id)
				}
			}
		}
		for id, n := range seen {
			if n != 1 {
				rt.Errorf("%s was listed %d times", id, n)
			}
		}
		for _, id := range lasting {
			if seen[id] != 1 {
				rt.Errorf("%s was listed %d times", id, seen[id])
			}
		}
		for id := range present {
			mustDelete(t, p, id)
		}
	})
}

func TestListVolumes_BadRequests(t *testing.T) {
	p := newWorld(t, worldOptions{}).start(t)
	for _, tt := range []struct {
		req  *csi.ListVolumesRequest
		want codes.Code
	}{
		{&csi.ListVolumesRequest{StartingToken: "invalid-token"}, codes.Aborted},
		{&csi.ListVolumesRequest{StartingToken: "after:"}, codes.Aborted},
		{&csi.ListVolumesRequest{StartingToken: "after:x/y/z"}, codes.Aborted},
		{&csi.ListVolumesRequest{StartingToken: "vg-a/x"}, codes.Aborted},
		{&csi.ListVolumesRequest{StartingToken: "after:vg-a/gone"}, codes.OK},
		{&csi.ListVolumesRequest{MaxEntries: -1}, codes.InvalidArgument},
	} {
		_, err := p.controller.ListVolumes(t.Context(), tt.req)
		wantCode(t, tt.req.String(), err, tt.want)
	}
}
