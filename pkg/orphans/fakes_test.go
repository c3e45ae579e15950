package orphans

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"
)

const testDriver = "local.example"

var errDown = errors.New("connection refused")

// fakeNode holds volumes and marks them as the driver does.
type fakeNode struct {
	volumes map[string]Volume // by UUID
	// err fails marks and deletions; listErr is that of OrphanCandidates.
	err, listErr error
	deleted      []string // names
	// beforeDelete runs when a deletion holds the volume.
	beforeDelete func()
}

func (n *fakeNode) OrphanCandidates(context.Context) ([]Volume, error) {
	return slices.Collect(maps.Values(n.volumes)), n.listErr
}

func (n *fakeNode) unchanged(v Volume) error {
	now, ok := n.volumes[v.UUID]
	if !ok || now.Used != v.Used || now.Seen != v.Seen || !now.Orphan.Equal(v.Orphan) {
		return ErrChanged
	}
	return n.err
}

func (n *fakeNode) MarkVolume(_ context.Context, v Volume, seen bool, orphan time.Time) error {
	if err := n.unchanged(v); err != nil {
		return err
	}
	v.Seen, v.Orphan = seen, orphan
	n.volumes[v.UUID] = v
	return nil
}

func (n *fakeNode) DeleteOrphan(ctx context.Context, v Volume, confirm func(context.Context) error) error {
	if err := n.unchanged(v); err != nil {
		return err
	}
	if n.beforeDelete != nil {
		n.beforeDelete()
	}
	if err := confirm(ctx); err != nil {
		return err
	}
	delete(n.volumes, v.UUID)
	n.deleted = append(n.deleted, v.Name)
	return nil
}

// fakeAPI is an API server; the PersistentVolumes are by name.
type fakeAPI struct {
	now     func() time.Duration
	volumes map[string]Answer
	// cache is what cached answers are made from; volumes if nil.
	cache map[string]Answer
	uid   string // of the Node; empty if there is none
	err   error
	asked []request
}

type request struct {
	at     time.Duration
	name   string // empty for the Node
	cached bool
}

func (a *fakeAPI) PersistentVolume(_ context.Context, name string, cached bool) (Answer, error) {
	a.asked = append(a.asked, request{a.now(), name, cached})
	if a.err != nil {
		return Answer{}, a.err
	}
	if cached && a.cache != nil {
		return a.cache[name], nil
	}
	return a.volumes[name], nil
}

func (a *fakeAPI) NodeUID(context.Context) (string, error) {
	a.asked = append(a.asked, request{at: a.now()})
	switch {
	case a.err != nil:
		return "", a.err
	case a.uid == "":
		return "", ErrNoNode
	}
	return a.uid, nil
}

// bench is a keeper whose time passes only when the test lets it.
type bench struct {
	t      *testing.T
	node   *fakeNode
	api    *fakeAPI
	keeper *Keeper
	told   []string // reasons of the notices

	registry    *prometheus.Registry
	clock, wake time.Duration
	random      *rand.Rand
}

func newBench(t *testing.T, change func(*Settings)) *bench {
	b := &bench{t: t, node: &fakeNode{volumes: map[string]Volume{}}, random: rand.New(rand.NewPCG(1, 2))}
	b.api = &fakeAPI{now: func() time.Duration { return b.clock }, volumes: map[string]Answer{}, uid: "u1"}
	b.restart(change)
	return b
}

// restart is a new process on the same node.
func (b *bench) restart(change func(*Settings)) {
	s := DefaultSettings()
	if change != nil {
		change(&s)
	}
	b.registry = prometheus.NewRegistry()
	b.keeper = newKeeper(Options{
		DriverName: testDriver, NodeName: "n1", Node: b.node, API: b.api, Settings: s, Metrics: NewMetrics(b.registry),
		Notify: func(n Notice) { b.told = append(b.told, n.Reason) },
	}, func() time.Duration { return b.clock }, b.random.Float64)
	b.keeper.wall = func() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).Add(b.clock) }
	b.wake = b.clock
}

// pass lets time pass.
func (b *bench) pass(d time.Duration) {
	ctx := klog.NewContext(b.t.Context(), klog.Logger{})
	end := b.clock + d
	for b.wake <= end {
		b.clock = max(b.clock, b.wake)
		b.wake = b.clock + b.keeper.step(ctx)
	}
	b.clock = end
}

// add makes a volume as CreateVolume does, and its PersistentVolume if wanted.
func (b *bench) add(name string, withVolume bool, change func(*Volume)) {
	v := Volume{ID: "vg/" + name, Name: name, UUID: "uuid-" + name, Pool: "ssd", SizeBytes: 10, PoolBytes: 16}
	if change != nil {
		change(&v)
	}
	b.node.volumes[v.UUID] = v
	if withVolume {
		b.appear(name)
	}
}

func (b *bench) appear(name string) {
	b.api.volumes[name] = Answer{Found: true, Driver: testDriver, Handle: "vg/" + name}
}

func used(v *Volume) { v.Used = true }

func (b *bench) volume(name string) Volume {
	b.t.Helper()
	v, ok := b.node.volumes["uuid-"+name]
	if !ok {
		b.t.Fatalf("after %v: volume %s is gone", b.clock, name)
	}
	return v
}

func (b *bench) wantOrphan(name string, want bool) {
	b.t.Helper()
	if got := b.volume(name).IsOrphan(); got != want {
		b.t.Errorf("after %v: %s is an orphan: %v, want %v", b.clock, name, got, want)
	}
}

func (b *bench) wantDeleted(names ...string) {
	b.t.Helper()
	if !slices.Equal(b.node.deleted, names) {
		b.t.Errorf("after %v: deleted %v, want %v", b.clock, b.node.deleted, names)
	}
}

func (b *bench) wantTold(reasons ...string) {
	b.t.Helper()
	if !slices.Equal(b.told, reasons) {
		b.t.Errorf("after %v: told %v, want %v", b.clock, b.told, reasons)
	}
}

func (b *bench) wantNext(name, part string) {
	b.t.Helper()
	entries, err := b.keeper.List(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name == name && strings.Contains(e.Next, part) {
			return
		}
	}
	b.t.Errorf("after %v: no orphan %s with %q in %+v", b.clock, name, part, entries)
}

// series are the values of a gauge, by its labels' values one after the other.
func (b *bench) series(name string) map[string]float64 {
	b.t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			values[strings.Join(labels, " ")] = metric.GetGauge().GetValue()
		}
	}
	return values
}

func (b *bench) held() bool { return b.series("csi_local_orphans_held")[""] == 1 }
