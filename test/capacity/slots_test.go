package capacity

import (
	"fmt"
	"testing"
	"time"

	"github.com/csi-local/csi-local/test/admin"
)

// The count on the CSINode follows what LVM takes, as a watch shows it; NodeGetInfo says
// the same at that moment, and neither is ever 0, which would mean "no limit".
func TestSlots_WatchShowsWhatLVMTakes(t *testing.T) {
	addGroup(t, thickGroup, disks()[0])
	b := newBed(t, fmt.Sprintf("pools: [{name: thick, volumeGroup: %s, type: thick}]\n", thickGroup))
	seen := b.watchSlots()
	const unlimited = 256 // --max-volumes
	b.create("thick", "ours", 4*mib)
	foreign := func(name string) []string {
		return []string{"lvcreate", "-qq", "-y", "-l", "1", "-n", name, thickGroup}
	}
	await(t, seen, "at the start", appearsWithin, unlimited, same)
	for _, change := range []struct {
		what    string
		command []string
		want    int32
	}{
		{"the group gets a limit", []string{"vgchange", "-qq", "-l", "5", thickGroup}, 5},
		{"a volume of others", foreign("theirs"), 4},
		{"one more", foreign("theirs-2"), 3},
		{"the limit is what there is", []string{"vgchange", "-qq", "-l", "3", thickGroup}, 1},
		{"others' volumes are gone", []string{"lvremove", "-qq", "-f", thickGroup + "/theirs", thickGroup + "/theirs-2"}, 3},
		{"no limit any more", []string{"vgchange", "-qq", "-l", "0", thickGroup}, unlimited},
	} {
		admin.Run(t, change.command...)
		changed := time.Now()
		shown := await(t, seen, change.what, appearsWithin, change.want, same)
		if info := b.slots(); info != change.want {
			t.Errorf("%s: NodeGetInfo says %d, CSINode %d", change.what, info, change.want)
		}
		t.Logf("%s: %d after %v", change.what, change.want, shown.Sub(changed).Round(10*time.Millisecond))
	}
	// Ours are deleted while others fill the group: there is nothing left, and that is 1.
	admin.Run(t, "vgchange", "-qq", "-l", "1", thickGroup)
	await(t, seen, "room for one", appearsWithin, 1, same)
	if err := b.Delete(t.Context(), thickGroup+"/ours"); err != nil {
		t.Fatal(err)
	}
	admin.Run(t, foreign("theirs")...)
	b.pass(refreshInterval + publishInterval + publishSpread)
	if info := b.slots(); info != 1 {
		t.Errorf("no room at all: NodeGetInfo says %d, want 1", info)
	}
	for _, s := range seen.all() {
		if s.value < 1 {
			t.Errorf("the CSINode said %d", s.value)
		}
	}
}

func same(a, b int32) bool { return a == b }
