package orphans_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"github.com/csi-local/csi-local/pkg/driver/drivertest"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/orphans"
)

const mib = int64(1) << 20

// life is what the test knows of one claim and its volume.
type life struct {
	handle string // empty until CreateVolume has answered
	exists bool   // the PersistentVolume, in the API
	known  bool   // it existed when the keeper asked, or a pod had the volume
	// deleted tells that DeleteVolume was called.
	deleted bool
}

// cluster is a real driver on an LVM in memory, a keeper, and an API server that
// is not always what it should be. Its time passes only in pass.
type cluster struct {
	t      *rapid.T
	bed    *drivertest.Bed
	keeper *orphans.Keeper
	lives  map[string]*life

	// What the API server answers: its own objects, nothing but errors, those of
	// some time ago in its cache, or another cluster's objects (none of ours).
	mode  string
	stale map[string]bool
	uid   string

	clock, wake time.Duration
	random      func() float64
}

var errDown = errors.New("connection refused")

func (c *cluster) PersistentVolume(_ context.Context, name string, cached bool) (orphans.Answer, error) {
	l := c.lives[name]
	switch {
	case c.mode == "down":
		return orphans.Answer{}, errDown
	case c.mode == "elsewhere":
		return orphans.Answer{}, nil
	case l == nil:
		return orphans.Answer{}, nil
	case c.mode == "stale" && cached:
		if !c.stale[name] {
			return orphans.Answer{}, nil
		}
	case !l.exists:
		return orphans.Answer{}, nil
	}
	// In the cache may be that of an earlier volume of this name, too.
	l.known = true
	return orphans.Answer{Found: true, Driver: drivertest.DriverName, Handle: "vgA/" + name}, nil
}

func (c *cluster) NodeUID(context.Context) (string, error) {
	switch c.mode {
	case "down":
		return "", errDown
	case "elsewhere":
		return "", orphans.ErrNoNode
	}
	return c.uid, nil
}

func newCluster(t *rapid.T, dir string) *cluster {
	c := &cluster{t: t, lives: map[string]*life{}, mode: "up", uid: "u1"}
	var err error
	if c.bed, err = drivertest.New(context.Background(), dir, drivertest.Options{}); err != nil {
		t.Fatal(err)
	}
	seed := rapid.Uint64().Draw(t, "seed")
	c.random = func() float64 {
		seed = seed*6364136223846793005 + 1442695040888963407
		return float64(seed>>11) / (1 << 53)
	}
	c.start()
	return c
}

// start is a new process.
func (c *cluster) start() {
	c.keeper = orphans.NewForTest(orphans.Options{
		DriverName: drivertest.DriverName, NodeName: drivertest.NodeName, Node: c.bed.Driver, API: c,
		Settings: orphans.DefaultSettings(), Metrics: orphans.NewMetrics(prometheus.NewRegistry()), Notify: func(orphans.Notice) {},
	}, func() time.Duration { return c.clock }, c.random)
	c.wake = c.clock
}

func (c *cluster) pass(d time.Duration) {
	ctx := klog.NewContext(context.Background(), klog.Logger{})
	end := c.clock + d
	for c.wake <= end {
		c.clock = max(c.clock, c.wake)
		c.wake = c.clock + c.keeper.Step(ctx)
	}
	c.clock = end
}

// create calls CreateVolume, for the first time or again.
func (c *cluster) create(name string) {
	answer, err := c.bed.Controller.CreateVolume(context.Background(), &csi.CreateVolumeRequest{
		Name: name, Parameters: map[string]string{"pool": "pool-thick"}, CapacityRange: &csi.CapacityRange{RequiredBytes: 64 * mib},
		VolumeCapabilities: []*csi.VolumeCapability{{
			AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		}},
	})
	if err != nil {
		c.t.Fatalf("CreateVolume %s: %v", name, err)
	}
	l := c.lives[name]
	if l == nil {
		l = &life{}
		c.lives[name] = l
	}
	l.handle, l.deleted = answer.GetVolume().GetVolumeId(), false
}

// use marks the volume as the first stage does.
func (c *cluster) use(name string) {
	l := c.lives[name]
	ref := lvm.Ref{VolumeGroup: "vgA", Name: name}
	err := c.bed.LVM.ChangeTags(context.Background(), ref, []string{"csi-local/state=used"}, []string{"csi-local/state=new"})
	if err != nil {
		c.t.Fatal(err)
	}
	l.known = true
}

// step is one thing that happens.
func (c *cluster) step() {
	name := fmt.Sprintf("pvc-%d", rapid.IntRange(0, 7).Draw(c.t, "claim"))
	l := c.lives[name]
	there := l != nil && c.there(name)
	switch what := rapid.SampledFrom([]string{
		"create", "create and leak", "appear", "use", "forget", "delete", "mode", "mode", "restart", "node", "pass", "pass", "pass",
	}).Draw(c.t, "what"); what {
	case "create", "create and leak":
		if l == nil || !l.exists && !l.known {
			c.create(name)
			c.lives[name].exists = what == "create"
		}
	case "appear": // a provisioner that was slow, or an operator who adopts
		if there && !l.deleted {
			l.exists = true
		}
	case "use":
		if there && l.exists {
			c.use(name)
		}
	case "forget": // by force, or with reclaim policy Retain
		if there && l.known {
			l.exists = false
		}
	case "delete":
		if there && l.exists {
			if _, err := c.bed.Controller.DeleteVolume(context.Background(), &csi.DeleteVolumeRequest{VolumeId: l.handle}); err != nil {
				c.t.Fatal(err)
			}
			c.lives[name] = &life{deleted: true}
		}
	case "mode":
		c.mode = rapid.SampledFrom([]string{"up", "up", "down", "stale", "elsewhere"}).Draw(c.t, "mode")
		c.stale = map[string]bool{}
		for name, l := range c.lives {
			c.stale[name] = l.exists && rapid.Bool().Draw(c.t, "cached")
		}
	case "restart":
		c.start()
	case "node":
		c.uid = fmt.Sprintf("u%d", rapid.IntRange(1, 2).Draw(c.t, "uid"))
	case "pass":
		c.pass(time.Duration(rapid.IntRange(1, 90).Draw(c.t, "minutes")) * time.Minute)
	}
}

func (c *cluster) there(name string) bool {
	_, ok := c.state().LogicalVolume(lvm.Ref{VolumeGroup: "vgA", Name: name})
	return ok
}

func (c *cluster) state() *lvm.State {
	state, err := c.bed.LVM.State(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
	return state
}

// check holds at any time: a volume whose PersistentVolume exists, or ever was
// seen, is there, and nothing that is marked is published.
func (c *cluster) check() {
	volumes, err := c.bed.Driver.OrphanCandidates(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
	marked := int64(0)
	for _, v := range volumes {
		if v.IsOrphan() {
			marked += v.PoolBytes
		}
	}
	for name, l := range c.lives {
		if l.handle != "" && (l.exists || l.known) && !c.there(name) {
			c.t.Fatalf("after %v: volume %s is gone; %+v", c.clock, name, *l)
		}
	}
	if published := c.published(); published != c.physical()-marked {
		c.t.Fatalf("after %v: %d bytes are published, orphans have %d", c.clock, published, marked)
	}
}

// physical is what the volume group has, metadata area left out.
func (c *cluster) physical() int64 {
	group, _ := c.state().VolumeGroup("vgA")
	return group.ExtentCount * group.ExtentSizeBytes
}

func (c *cluster) published() int64 {
	return c.bed.Driver.PoolReadings(context.Background())[0].AllocatableBytes
}

// finish lets everything come right: then the orphans, and no others, are out of
// the figure, and of them only those are left that were somebody's.
func (c *cluster) finish() {
	c.mode = "up"
	c.pass(4 * time.Hour)
	c.check()
	lost := int64(0)
	for name, l := range c.lives {
		switch {
		case l.handle == "" || l.deleted || !c.there(name):
		case !l.exists && !l.known:
			c.t.Fatalf("volume %s leaked for good", name)
		case !l.exists:
			lost += 64 * mib
		}
	}
	if got := c.physical() - c.published(); got != lost {
		entries, err := c.keeper.List(context.Background())
		c.t.Fatalf("%d bytes are not published, and %d are of volumes without a PersistentVolume (%+v, %v)", got, lost, entries, err)
	}
	for _, name := range slices.Sorted(maps.Keys(c.lives)) {
		if l := c.lives[name]; l.known && !l.exists {
			l.exists = true // an operator adopts it
		}
	}
	c.pass(5 * time.Minute)
	if c.published() != c.physical() {
		c.t.Fatalf("%d of %d bytes are published after all were adopted", c.published(), c.physical())
	}
}

// Whatever happens in whatever order.
func TestKeeper_NeverTouchesWhatIsSomebodys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "orphans") // short, for the socket
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		c := newCluster(t, dir)
		defer func() {
			if err := c.bed.Close(); err != nil {
				t.Error(err)
			}
		}()
		for range rapid.IntRange(5, 40).Draw(t, "steps") {
			c.step()
			c.check()
		}
		c.finish()
	})
}
