package capacity

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/csi-local/csi-local/bench/result"
	"github.com/csi-local/csi-local/test/admin"
)

// agent begins the user agent of the node process.
const agent = "csi-local/"

const (
	thickGroup = "capacity-thick"
	thinGroup  = "capacity-thin"
)

var thin = thinRules{ratio: 1.5, watermark: 60, reserveBytes: 16 * mib}

// twoPools is a pools file with a thick and a thin pool, and their groups.
func twoPools(t *testing.T) string {
	t.Helper()
	addGroup(t, thickGroup, disks()[:2]...)
	addGroup(t, thinGroup, disks()[3])
	admin.Run(t, "lvcreate", "-qq", "-y", "--type", "thin-pool", "-L", "512M", "-n", "pool", thinGroup)
	return fmt.Sprintf(`pools:
- name: thick
  volumeGroup: %s
  type: thick
  reserve: 32Mi
- name: thin
  volumeGroup: %s
  type: thin
  thinPool: pool
  reserve: 16Mi
  overprovisionRatio: %g
  dataWatermarkPercent: %d
`, thickGroup, thinGroup, thin.ratio, thin.watermark)
}

// wanted is what twoPools should publish now.
func wanted(t *testing.T) map[string]int64 {
	t.Helper()
	s := ask(t)
	return map[string]int64{"thick": s.thickFigure(thickGroup, 32*mib), "thin": s.thinFigure(thinGroup, "pool", thin)}
}

// appearsWithin is the longest time from a change in LVM to its figure: LVM is read, a
// higher figure is looked at for a while, and the next write has its turn. The rest is
// what LVM's commands take in a throwaway kernel.
const appearsWithin = refreshInterval + raiseDelay + publishInterval + publishSpread + 3*time.Second

// writes are the node process's writes of each kind of object.
func (b *bed) writes() map[string]int {
	b.t.Helper()
	requests, err := b.Audit(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	counts := map[string]int{}
	for _, r := range requests {
		if r.Write() && strings.HasPrefix(r.Agent, agent) {
			counts[r.Resource]++
		}
	}
	return counts
}

func TestWrites_NoneForVolumesThatComeAndGo(t *testing.T) {
	const batch = 40
	total := flagValue[int](t, flagVolumes)
	b := newBed(t, twoPools(t))
	want := wanted(t)
	seen := b.watchPools()
	awaitPools(t, seen, "at the start", appearsWithin, want)
	before := b.writes()
	if before["nodes"] == 0 {
		t.Fatal("no write of the reporter is in the audit log: nothing can be concluded from it")
	}
	start := time.Now()
	for done := 0; done < total; done += batch {
		var ids []string
		for i := range min(batch, total-done) {
			pool := []string{"thick", "thin"}[i%2]
			ids = append(ids, b.create(pool, fmt.Sprint("volume-", done+i), int64(1+i%7)*4*mib).ID)
		}
		for _, id := range ids {
			if err := b.Delete(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
	}
	took := time.Since(start)
	// A write that is late is a write all the same.
	b.pass(refreshInterval + publishInterval + publishSpread)
	after := b.writes()
	nodes, csiNodes := after["nodes"]-before["nodes"], after["csinodes"]-before["csinodes"]
	t.Logf("%d volumes created and deleted in %v: %d writes of the Node, %d of the CSINode", total, took.Round(time.Second), nodes, csiNodes)
	var figures result.Set
	figures.Report("lvm_volumes_created_and_deleted", float64(total), "count")
	perThousand := 1000 / float64(2*total)
	figures.AtMost("node_writes_per_1000_volume_changes", float64(nodes)*perThousand, "count", 0)
	figures.AtMost("csinode_writes_per_1000_volume_changes", float64(csiNodes)*perThousand, "count", 0)
	if err := figures.Err(); err != nil {
		t.Error(err)
	}
	if shown := seen.all(); !maps.Equal(shown[len(shown)-1].value, want) {
		t.Errorf("published %v, want %v as at the start", shown, want)
	}
	if folder := flagValue[string](t, flagResults); folder != "" {
		if err := figures.Write(folder, "capacity-lvm"); err != nil {
			t.Error(err)
		}
	}
}

// pass lets real time go by in which nothing should happen.
func (b *bed) pass(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.t.Context().Done():
	}
}
