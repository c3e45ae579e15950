package capacity

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csi-local/csi-local/test/admin"
	"github.com/csi-local/csi-local/test/nodeproc"
)

// pool is one that is filled to the last extent.
type pool struct {
	name string
	// disksMiB are the sizes of the group's disks.
	disksMiB []int64
	// fragmented: others' volumes are in the group, with gaps between them.
	fragmented bool
	// layout are the class's parameters besides the pool.
	layout map[string]string
	// needs is how many disks a volume is laid on, and eachMiB the least that is free on
	// each of them for the smallest volume: one extent, and one more for a mirror's metadata.
	needs   int
	eachMiB int64
	// reserveMiB is the pools file's.
	reserveMiB int64
	// thinMiB is the size of the thin pool; 0 for a thick pool.
	thinMiB int64
	rules   thinRules
}

func striped(n int) map[string]string {
	return map[string]string{"layout": "striped", "stripes": fmt.Sprint(n)}
}

func mirrored(n int) map[string]string {
	return map[string]string{"layout": "raid1", "mirrors": fmt.Sprint(n)}
}

// pools are small, so that they are full after some volumes; an extent has 1 MiB.
func poolsToFill() []pool {
	return []pool{
		{name: "linear", disksMiB: []int64{97}, needs: 1, eachMiB: 1},
		{name: "linear-fragmented", disksMiB: []int64{120, 65, 90}, fragmented: true, reserveMiB: 7, needs: 1, eachMiB: 1},
		{name: "striped-equal", disksMiB: []int64{65, 65}, layout: striped(2), needs: 2, eachMiB: 1},
		{name: "striped-unequal", disksMiB: []int64{90, 40, 30}, layout: striped(2), needs: 2, eachMiB: 1},
		{name: "striped-fragmented", disksMiB: []int64{120, 65, 90}, fragmented: true, layout: striped(3), needs: 3, eachMiB: 1},
		{name: "raid1-equal", disksMiB: []int64{65, 65}, layout: mirrored(2), needs: 2, eachMiB: 2},
		{name: "raid1-unequal", disksMiB: []int64{90, 40, 30}, layout: mirrored(2), needs: 2, eachMiB: 2},
		{name: "raid1-fragmented", disksMiB: []int64{120, 65, 90}, fragmented: true, layout: mirrored(3), needs: 3, eachMiB: 2},
		{name: "thin", disksMiB: []int64{130}, thinMiB: 100, rules: thinRules{ratio: 1, watermark: 90}},
		{name: "thin-oversold", disksMiB: []int64{130, 60}, fragmented: true, thinMiB: 80, reserveMiB: 3,
			rules: thinRules{ratio: 2.5, watermark: 90, reserveBytes: 3 * mib}},
	}
}

func (p pool) group() string { return "fill-" + p.name }

func (p pool) yaml() string {
	text := fmt.Sprintf("- {name: %s, volumeGroup: %s, reserve: %dMi, ", p.name, p.group(), p.reserveMiB)
	if p.thinMiB == 0 {
		return text + "type: thick}\n"
	}
	return text + fmt.Sprintf("type: thin, thinPool: pool, overprovisionRatio: %g, dataWatermarkPercent: %d}\n", p.rules.ratio, p.rules.watermark)
}

func (p pool) figure(s said) int64 {
	if p.thinMiB > 0 {
		return s.thinFigure(p.group(), "pool", p.rules)
	}
	return s.thickFigure(p.group(), p.reserveMiB*mib)
}

// used is what the driver's volumes have of the figure.
func (p pool) used(s said) int64 {
	if p.thinMiB == 0 {
		return s.ownBytes(p.group())
	}
	var virtual int64
	for _, v := range s.volumes {
		if v.group == p.group() && v.own {
			virtual += v.sizeBytes
		}
	}
	return virtual
}

// The published figure is what LVM accepts: volumes are made until it is used up. The
// last that fits by the figure is made, one extent more is refused for want of space.
func TestFigure_IsWhatLVMAccepts(t *testing.T) {
	seed := flagValue[int64](t, flagSeed)
	if seed == 0 {
		seed = time.Now().UnixNano()
	}
	t.Logf("the same again: go test ./test/capacity -run %s -seed %d", t.Name(), seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	pools := poolsToFill()
	makeGroups(t, pools, random)
	file := "pools:\n"
	for _, p := range pools {
		file += p.yaml()
	}
	b := newBed(t, file)
	want, now := map[string]int64{}, ask(t)
	for _, p := range pools {
		want[p.name] = p.figure(now)
	}
	seen := b.watchPools()
	awaitPools(t, seen, "at the start", appearsWithin, want)
	for _, p := range pools {
		t.Run(p.name, func(t *testing.T) {
			f := &filling{bed: b, pool: p, t: t, published: want[p.name]}
			f.fill(random)
		})
	}
	if all := seen.all(); !maps.Equal(all[len(all)-1].value, want) {
		t.Errorf("all pools are full of our volumes: published %v, want %v as when they were empty", all[len(all)-1].value, want)
	}
}

// makeGroups makes the pools' volume groups on pieces of one disk, with what others have in
// them. It does with few processes what would take a hundred.
func makeGroups(t *testing.T, pools []pool, random *rand.Rand) {
	t.Helper()
	disk := disks()[0]
	admin.Run(t, "blkdiscard", "-f", disk)
	const sectors = mib / 512
	var groups, pieces, commands []string
	t.Cleanup(func() {
		admin.CleanUp(t, append([]string{"vgremove", "-qq", "-ff", "-y"}, groups...)...)
		admin.CleanUp(t, append([]string{"dmsetup", "remove", "--retry"}, pieces...)...)
	})
	next := int64(1)
	for _, p := range pools {
		var devices []string
		for i, size := range p.disksMiB {
			piece := fmt.Sprintf("%s-%d", p.group(), i)
			size++ // for LVM's own metadata
			admin.Run(t, "dmsetup", "create", piece, "--table", fmt.Sprintf("0 %d linear %s %d", size*sectors, disk, next*sectors))
			next += size
			pieces, devices = append(pieces, piece), append(devices, "/dev/mapper/"+piece)
		}
		groups = append(groups, p.group())
		commands = append(commands, p.commands(random, devices)...)
	}
	shell := exec.CommandContext(t.Context(), "lvm")
	shell.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	out, err := shell.CombinedOutput()
	done := len(succeeded.FindAll(out, -1))
	if err != nil || done != len(commands) {
		t.Fatalf("%d of %d commands were successful, %v\n%s", done, len(commands), err, out)
	}
}

// succeeded finds what the lvm shell prints after each command that has worked.
var succeeded = regexp.MustCompile(`(?m)^ +(Logical volume|Volume group) "\S+" (successfully )?(created|removed)`)

// commands are LVM's that make the group, and what others have in it.
func (p pool) commands(random *rand.Rand, devices []string) []string {
	commands := []string{"vgcreate -y -s 1m " + p.group() + " " + strings.Join(devices, " ")}
	if p.fragmented {
		commands = append(commands, fragments(random, p.group(), devices)...)
	}
	if p.thinMiB > 0 {
		commands = append(commands,
			fmt.Sprintf("lvcreate -y --type thin-pool -l %d --poolmetadatasize 4m --poolmetadataspare n -n pool %s", p.thinMiB, p.group()),
			fmt.Sprintf("lvcreate -y -V 9m --thinpool pool -n theirs %s", p.group()))
	}
	return commands
}

// fragments leave volumes of others on all disks, with gaps between them.
func fragments(random *rand.Rand, group string, devices []string) (commands []string) {
	var removals []string
	for i, device := range devices {
		for j := range 4 {
			name := fmt.Sprintf("gap-%d-%d", i, j)
			commands = append(commands, fmt.Sprintf("lvcreate -y -an -Zn -Wn -l %d -n %s %s %s", 1+random.IntN(7), name, group, device))
			if j%2 == random.IntN(2) {
				removals = append(removals, fmt.Sprintf("lvremove -y %s/%s", group, name))
			}
		}
	}
	return append(commands, removals...)
}

// filling is a pool while it is filled.
type filling struct {
	*bed
	pool
	t         *testing.T
	published int64
	count     int
}

// fill makes some volumes of random sizes, and then the largest that fits, until none does.
func (f *filling) fill(random *rand.Rand) {
	most := f.largestMiB(ask(f.t))
	for range 3 {
		f.make(1+random.Int64N(most/5), codes.OK)
	}
	for range 10 {
		s := ask(f.t)
		most := f.largestMiB(s)
		f.awaitAnswer(most)
		f.make(most+1, codes.ResourceExhausted)
		if most == 0 {
			f.checkLeft(s)
			return
		}
		f.make(most, codes.OK)
	}
	f.t.Fatal("the largest volume that fits was made ten times, and there is room still")
}

// largestMiB is the size of the largest volume that there is room for, by the figure that
// was published, what the volumes have of it, and where the free extents are.
func (f *filling) largestMiB(s said) int64 {
	left := (f.published - f.used(s)) / mib
	if f.needs <= 1 { // linear and thin
		return left
	}
	// Disks that are full are not in the list.
	free := slices.AppendSeq(make([]int64, f.needs), maps.Values(s.freeBytes(f.group())))
	if f.eachMiB > 1 { // a mirror has each copy on one disk
		slices.Sort(free)
		return max(free[len(free)-f.needs]/mib-(f.eachMiB-1), 0)
	}
	// LVM takes the disks with the most free extents, and when one is full others in its place.
	var rows int64
	for {
		slices.SortFunc(free, func(a, b int64) int { return cmp.Compare(b, a) })
		fill := free[f.needs-1]
		if fill == 0 {
			return rows * int64(f.needs)
		}
		for i := range f.needs {
			free[i] -= fill
		}
		rows += fill / mib
	}
}

// awaitAnswer waits until GetCapacity gives the same answer: after a change it may be a
// guess until LVM has been read.
func (f *filling) awaitAnswer(wantMiB int64) {
	f.t.Helper()
	timeout := time.NewTimer(10 * refreshInterval)
	defer timeout.Stop()
	tick := time.NewTicker(refreshInterval / 10)
	defer tick.Stop()
	for {
		answer, err := f.Controller.GetCapacity(f.t.Context(), &csi.GetCapacityRequest{Parameters: f.parameters()})
		if err != nil {
			f.t.Fatal(err)
		}
		got := answer.GetMaximumVolumeSize().GetValue()
		if got == wantMiB*mib {
			return
		}
		select {
		case <-timeout.C:
			f.t.Fatalf("GetCapacity says that the largest volume may have %d bytes, LVM %d MiB", got, wantMiB)
		case <-tick.C:
		}
	}
}

// checkLeft states what of the published figure no volume of the layout could use: s is
// what LVM says when none fits any more.
func (f *filling) checkLeft(s said) {
	left := f.published - f.used(s)
	if f.needs <= 1 {
		if left >= mib {
			f.t.Errorf("%d bytes of the published figure could not be used", left)
		}
		return
	}
	// What LVM has to lay on several disks it cannot lay on fewer.
	enough := 0
	for _, free := range s.freeBytes(f.group()) {
		if free >= f.eachMiB*mib {
			enough++
		}
	}
	f.t.Logf("%d of %d MiB published could not be used: %d disks with %d MiB or more are left of the %d that a volume needs",
		left/mib, f.published/mib, enough, f.eachMiB, f.needs)
	if enough >= f.needs {
		f.t.Errorf("there was room for a volume more: %v", s.freeBytes(f.group()))
	}
}

func (f *filling) parameters() map[string]string {
	parameters := map[string]string{"pool": f.name}
	maps.Copy(parameters, f.layout)
	return parameters
}

// make asks for a volume and wants the answer to have this code.
func (f *filling) make(sizeMiB int64, want codes.Code) {
	f.t.Helper()
	f.count++
	v, err := f.Create(f.t.Context(), nodeproc.Spec{Name: fmt.Sprint(f.name, "-", f.count), SizeBytes: sizeMiB * mib, Parameters: f.parameters()})
	if got := status.Code(err); got != want {
		f.t.Fatalf("a volume of %d MiB: %v, want %v", sizeMiB, err, want)
	}
	if err == nil && v.CapacityBytes < sizeMiB*mib {
		f.t.Errorf("a volume of %d MiB has %d bytes", sizeMiB, v.CapacityBytes)
	}
}
