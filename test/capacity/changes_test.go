package capacity

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/test/admin"
)

// What others do in the volume groups appears on the Node in time, and as the right
// figure.
func TestChanges_OfOthersAppear(t *testing.T) {
	b := newBed(t, twoPools(t))
	spare := disks()[2]
	volume := b.create("thick", "ours", 40*mib)
	b.create("thin", "ours-thin", 24*mib)
	_, name, ok := strings.Cut(volume.ID, "/")
	if !ok {
		t.Fatalf("volume ID %q", volume.ID)
	}
	last, seen := wanted(t), b.watchPools()
	awaitPools(t, seen, "at the start", appearsWithin, last)
	for _, change := range []struct {
		what    string
		command []string
		pool    string // the one whose figure changes
	}{
		{"a logical volume of others", []string{"lvcreate", "-qq", "-y", "-L", "60M", "-n", "theirs", thickGroup}, "thick"},
		{"a thick snapshot of a volume of ours", []string{"lvcreate", "-qq", "-y", "-s", "-L", "20M", "-n", "backup", thickGroup + "/" + name}, "thick"},
		{"a disk more", []string{"vgextend", "-qq", thickGroup, spare}, "thick"},
		{"a disk that takes no more", []string{"pvchange", "-qq", "-x", "n", spare}, "thick"},
		{"it takes again", []string{"pvchange", "-qq", "-x", "y", spare}, "thick"},
		{"a disk less", []string{"vgreduce", "-qq", thickGroup, spare}, "thick"},
		{"others' volumes are gone", []string{"lvremove", "-qq", "-f", thickGroup + "/backup", thickGroup + "/theirs"}, "thick"},
		{"a thin volume of others", []string{"lvcreate", "-qq", "-y", "-V", "500M", "--thinpool", thinGroup + "/pool", "-n", "filler"}, "thin"},
		{"the thin pool is near its watermark", fillThin(0, 280), "thin"},
		{"the thin pool is past its watermark", fillThin(280, 60), "thin"},
		{"the thin pool is larger", []string{"lvextend", "-qq", "-L", "+200M", thinGroup + "/pool"}, "thin"},
	} {
		admin.Run(t, change.command...)
		changed := time.Now()
		want := wanted(t)
		if want[change.pool] == last[change.pool] || len(diff(want, last)) != 1 {
			t.Fatalf("%s: LVM says %v after %v: this shows nothing", change.what, want, last)
		}
		shown := awaitPools(t, seen, change.what, appearsWithin, want)
		t.Logf("%s: %s after %v", change.what, diff(want, last), shown.Sub(changed).Round(10*time.Millisecond))
		if took := shown.Sub(changed); took > appearsWithin {
			t.Errorf("%s: took %v, more than %v", change.what, took, appearsWithin)
		}
		last = want
	}
	b.event("PoolAtWatermark")
}

// fillThin writes into the thin volume of others.
func fillThin(fromMiB, countMiB int) []string {
	return []string{"dd", "if=/dev/urandom", "of=" + device(thinGroup, "filler"), "bs=1M", "oflag=direct", "status=none",
		fmt.Sprint("seek=", fromMiB), fmt.Sprint("count=", countMiB)}
}

// diff names the pools that differ, with what their figure gained.
func diff(now, before map[string]int64) map[string]string {
	changed := map[string]string{}
	for pool := range now {
		if gain := now[pool] - before[pool]; gain != 0 {
			changed[pool] = fmt.Sprintf("%+d MiB", gain/mib)
		}
	}
	return changed
}

// event looks for an event on the Node. It is told before the figure is written, but by
// another connection.
func (b *bed) event(reason string) {
	b.t.Helper()
	w, err := b.Admin.CoreV1().Events("").Watch(b.t.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.kind=Node,reason=" + reason, TimeoutSeconds: new(int64(10)),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	defer w.Stop()
	// A watch begins with what is there already.
	if _, ok := <-w.ResultChan(); !ok {
		b.t.Errorf("there is no event with reason %s", reason)
	}
}

// A disk that dies takes the pool's figure with it, as LVM cannot change a volume group
// without it; when it is back, so is the figure.
func TestChanges_DiskDiesAndComesBack(t *testing.T) {
	const name = "capacity-dying"
	lost, other := disks()[0], disks()[1]
	// Not from the disk's beginning, or LVM would find the same physical volume on the disk itself.
	const offset = 2048
	sectors := integer(t, strings.TrimSpace(admin.Run(t, "blockdev", "--getsz", lost))) - offset
	table := fmt.Sprintf("0 %d linear %s %d", sectors, lost, offset)
	admin.Run(t, "dmsetup", "create", name, "--table", table)
	t.Cleanup(func() { admin.CleanUp(t, "dmsetup", "remove", "--retry", name) })
	addGroup(t, thickGroup, "/dev/mapper/"+name, other)
	b := newBed(t, fmt.Sprintf("pools: [{name: thick, volumeGroup: %s, type: thick}]\n", thickGroup))
	want, seen := map[string]int64{"thick": ask(t).thickFigure(thickGroup, 0)}, b.watchPools()
	awaitPools(t, seen, "at the start", appearsWithin, want)

	become := func(table string) {
		t.Helper()
		admin.Run(t, "dmsetup", "suspend", name)
		admin.Run(t, "dmsetup", "load", name, "--table", table)
		admin.Run(t, "dmsetup", "resume", name)
	}
	become(fmt.Sprintf("0 %d error", sectors))
	changed := time.Now()
	shown := awaitPools(t, seen, "a disk that died", errorValidity+appearsWithin, map[string]int64{"thick": 0})
	t.Logf("0 after %v, of which the last figure counted for %v", shown.Sub(changed).Round(10*time.Millisecond), errorValidity)
	b.event("PoolUnreadable")

	become(table)
	changed = time.Now()
	shown = awaitPools(t, seen, "the disk is back", appearsWithin, want)
	t.Logf("back after %v", shown.Sub(changed).Round(10*time.Millisecond))
}
