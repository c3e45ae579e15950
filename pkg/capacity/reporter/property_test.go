package reporter

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// How LVM and the API server behave in the model.
const (
	lvmAnswers = iota
	lvmHangs
	lvmSaysMissing
)

const (
	lvmRefresh  = time.Minute      // LVM is read at least that often while it answers
	watchLag    = 20 * time.Second // events of the watch arrive within that time
	longestStep = 30 * time.Second
	retryAfter  = 30 * time.Second
)

// settleTime is how long the reporter may take to lower a figure when nothing
// keeps it from doing so: the last back-off, spreading, tokens, and the
// validity that a restart gives to what it finds.
func settleTime(s Settings) time.Duration {
	return s.BackoffMax + retryAfter + 2*s.Interval + s.UrgentSpread + s.Spread + watchLag + 2*longestStep + s.ErrorValidity
}

// reading is one thing LVM said.
type truth struct {
	at    time.Duration
	value int64
}

// world is a node with one reporter, simulated step by step.
type world struct {
	t        *rapid.T
	settings Settings
	now      time.Duration
	wall     time.Time

	lvm      int
	lvmSince time.Duration
	pools    []string
	history  map[string][]truth // of the pools themselves, by time
	gone     map[string]bool    // volume groups that were pulled out
	read     map[string]int64   // LVM's last answer, taken at readAt
	readGone map[string]bool
	readAt   time.Duration

	server    *fakeServer
	requests  int
	outage    func(verb, resource string) error
	calmSince time.Duration // API server and reporter work since then
	seenByAPI map[string]int64
	reporter  *Reporter
	born      time.Duration
	bornTries int
	wakeAt    time.Duration
	event     *Object
	eventDue  time.Duration
	death     death
	late      []byte // what a process that died had sent
	lateDue   time.Duration
	random    *rand.Rand
}

func newWorld(t *rapid.T) *world {
	seed := rapid.Uint64().Draw(t, "seed")
	w := &world{
		t: t, settings: DefaultSettings(), wall: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), pools: []string{"a", "b"},
		history: map[string][]truth{}, read: map[string]int64{}, server: newFakeServer(), random: rand.New(rand.NewPCG(seed, seed)), //nolint:gosec // a model
		seenByAPI: map[string]int64{}, gone: map[string]bool{},
	}
	for _, pool := range w.pools {
		w.setTruth(pool, w.random.Int64N(1000)+1)
	}
	w.readLVM()
	w.server.hold = w.dies
	w.server.wrote = func(kind Kind) {
		if kind == KindNode {
			w.checkWrite()
		}
	}
	w.restart()
	return w
}

func (w *world) setTruth(pool string, value int64) {
	w.history[pool] = append(w.history[pool], truth{w.now, value})
}

func (w *world) truth(pool string) int64 { return w.history[pool][len(w.history[pool])-1].value }

// most is the highest figure the pool had within the window that ends now.
func (w *world) most(pool string, window time.Duration) int64 {
	var most int64
	h := w.history[pool]
	for i := len(h) - 1; i >= 0; i-- {
		most = max(most, h[i].value)
		if h[i].at < w.now-window {
			break
		}
	}
	return most
}

func (w *world) readLVM() {
	if w.lvm == lvmHangs {
		return
	}
	for _, pool := range w.pools {
		w.read[pool] = w.truth(pool)
	}
	w.readGone, w.readAt = maps.Clone(w.gone), w.now
}

// PoolReadings is what the driver would say.
func (w *world) PoolReadings(context.Context) []capacity.PoolReading {
	var out []capacity.PoolReading
	for _, pool := range w.pools {
		r := capacity.PoolReading{Pool: pool, AllocatableBytes: w.read[pool], ExtentSizeBytes: 4 << 20, Age: w.now - w.readAt}
		// A process that was started while LVM hangs has never had an answer.
		if w.lvm == lvmSaysMissing || w.readGone[pool] || w.readAt < w.born {
			r = capacity.PoolReading{Pool: pool, Err: errors.New("volume group not found")}
		}
		out = append(out, r)
	}
	return out
}

func (w *world) RefreshPools(context.Context) error { return nil }

func (w *world) MaxVolumesPerNode() (int64, error) { return 100, nil }

// worldClock begins with each start of the process.
type worldClock struct {
	w    *world
	born time.Duration
}

func (c worldClock) Now() time.Duration { return c.w.now - c.born }

func (worldClock) After(time.Duration) <-chan time.Time { return nil }

func (w *world) restart() {
	w.born, w.wakeAt, w.calmSince, w.event = w.now, w.now, max(w.calmSince, w.now), nil
	w.server.mu.Lock()
	w.bornTries = w.server.attempts[KindNode]
	w.server.mu.Unlock()
	if w.lvm != lvmHangs {
		w.readLVM()
	}
	w.reporter = newReporter(Options{
		DriverName: testDriver, Version: "v1.0.0", BootID: "boot", Source: w, API: w.server.client(),
		Settings: w.settings, Metrics: NewMetrics(prometheus.NewRegistry()), Clock: worldClock{w, w.born},
	}, w.random.Float64)
	w.reporter.wall = func() time.Time { return w.wall }
}

func (w *world) published() map[string]int64 {
	pools, _, _ := capacity.DecodePools(w.server.pools())
	return pools
}

// checkWrite runs inside the API server's write: a figure is never raised above
// what LVM said within the validity, and what LVM said is not older than half of it.
func (w *world) checkWrite() {
	written, _, err := capacity.DecodePools(w.server.node.Annotations[capacity.PoolsAnnotation(testDriver)])
	if err != nil {
		w.t.Fatalf("the reporter wrote %q: %v", w.server.node.Annotations, err)
	}
	for pool, figure := range written {
		raised := figure > w.seenByAPI[pool]
		if raised && (figure > w.read[pool] || w.lvm == lvmSaysMissing || w.readGone[pool] || w.now-w.readAt > w.settings.Validity/2) {
			w.t.Fatalf("pool %s raised from %d to %d; LVM said %d, %v ago", pool, w.seenByAPI[pool], figure, w.read[pool], w.now-w.readAt)
		}
	}
	w.seenByAPI = written
}

// checkState: whatever happened, no figure stands above the truth for longer
// than it takes to hear of it.
func (w *world) checkState() {
	settle := settleTime(w.settings)
	if w.now-w.calmSince < settle {
		return
	}
	window := settle + lvmRefresh
	if w.lvm != lvmAnswers || w.now-w.lvmSince < settle+lvmRefresh {
		window = w.settings.Validity + settle
	}
	for pool, figure := range w.published() {
		if most := w.most(pool, window); figure > most {
			w.t.Fatalf("at %v pool %s is published with %d, and had at most %d in the last %v", w.now, pool, figure, most, window)
		}
		if w.lvm != lvmAnswers && w.now-w.lvmSince > window && figure != 0 {
			w.t.Fatalf("at %v pool %s is published with %d, and LVM does not answer since %v", w.now, pool, figure, w.lvmSince)
		}
	}
	tries := w.server.tried(KindNode) - w.bornTries
	if most := burst + int((w.now-w.born)/w.settings.Interval) + 1; tries > most {
		w.t.Fatalf("%d attempts to write within %v, at most %d are allowed", tries, w.now-w.born, most)
	}
}

// advance lets time pass, and the reporter look when it is its time.
func (w *world) advance(d time.Duration) {
	end := w.now + d
	for {
		next := min(end, max(w.wakeAt, w.now))
		if w.event != nil {
			next = min(next, max(w.eventDue, w.now))
		}
		if w.late != nil {
			next = min(next, max(w.lateDue, w.now))
		}
		w.pass(next - w.now)
		if w.late != nil && w.now >= w.lateDue {
			w.landLate()
		}
		if w.event != nil && w.now >= w.eventDue {
			w.reporter.observe(KindNode, *w.event)
			w.event = nil
			w.wakeAt = w.now
		}
		if w.now >= w.wakeAt {
			w.look()
			continue
		}
		if w.now >= end {
			return
		}
	}
}

func (w *world) pass(d time.Duration) {
	w.now += d
	w.wall = w.wall.Add(d)
	if w.now-w.readAt >= lvmRefresh {
		w.readLVM()
	}
}

func (w *world) look() {
	w.server.failWith(w.outage, w.outageAfter())
	w.wakeAt = w.now + w.reporter.sync(klog.NewContext(context.Background(), klog.Logger{}))
	w.server.failWith(nil, nil)
	w.requests++
	if w.death == deathIsDone {
		w.death = deathIsFar
		w.restart()
	}
}

func (w *world) outageAfter() func(verb, resource string) error {
	if w.outage == nil || w.random.IntN(4) > 0 {
		return nil
	}
	lost := w.outage
	w.server.before = nil // it happens, and nobody hears of it
	return lost
}

// edit is a write of somebody else, seen by the watch a little later.
func (w *world) edit(key, value string) {
	w.server.annotate(key, value)
	w.seenLater()
}

// seenLater is a change that the reporter did not make and will hear of.
func (w *world) seenLater() {
	w.server.mu.Lock()
	w.server.changeNode(func(n *v1.Node) { n.Labels = map[string]string{"v": strconv.Itoa(w.random.IntN(9))} })
	object := nodeObject(w.server.node)
	w.server.mu.Unlock()
	w.seenByAPI = w.published()
	w.calmSince = max(w.calmSince, w.now)
	w.event, w.eventDue = &object, w.now+time.Duration(w.random.Int64N(int64(watchLag)))
}

func (w *world) setOutage(err error) {
	if w.outage != nil {
		w.calmSince = w.now
	}
	w.outage = nil
	if err != nil {
		w.calmSince = 1 << 62
		w.outage = func(string, string) error { return err }
	}
}

func (w *world) setLVM(mode int) {
	w.lvm, w.lvmSince = mode, w.now
	if mode != lvmHangs {
		w.readLVM()
	}
}

// step does one thing that may happen.
func (w *world) step() {
	pool := w.pools[w.random.IntN(len(w.pools))]
	switch rapid.IntRange(0, 19).Draw(w.t, "event") {
	case 0, 1, 2:
		w.gone[pool] = false
		w.setTruth(pool, w.random.Int64N(1000))
		if w.random.IntN(2) == 0 { // noticed at once, or with the next refresh
			w.readLVM()
			w.wakeAt = w.now
		}
	case 3:
		w.setLVM(lvmHangs)
	case 4:
		w.setLVM(lvmSaysMissing)
	case 5, 6:
		w.setLVM(lvmAnswers)
	case 7:
		w.setOutage([]error{
			context.DeadlineExceeded, apierrors.NewTooManyRequests("busy", int(retryAfter/time.Second)),
			apierrors.NewForbidden(resourceOf(KindNode), testNode, nil), apierrors.NewInternalError(errors.New("etcd")),
		}[w.random.IntN(4)])
	case 8, 9, 10:
		w.setOutage(nil)
	case 11:
		w.advance(5 * time.Minute)
	case 12:
		w.edit(capacity.PoolsAnnotation(testDriver), []string{"", "garbage", `{"a":"5000"}`, `{"a":"1","c":"7"}`}[w.random.IntN(4)])
	case 13:
		w.edit("somebody/else", strconv.Itoa(w.random.IntN(100)))
	case 14:
		w.restart()
	case 15:
		w.wall = w.wall.Add(time.Duration(w.random.Int64N(int64(48*time.Hour))) - 24*time.Hour)
	case 16:
		w.reporter.VolumeFailed()
		w.wakeAt = w.now
	case 17:
		w.gone[pool] = true
		w.setTruth(pool, 0)
	case 18:
		w.death = death(w.random.IntN(3)) + deathBefore
	default:
	}
	w.advance(time.Duration(w.random.Int64N(int64(longestStep))))
	w.checkState()
}

func TestReporter_NeverPublishesMoreThanTheTruth(t *testing.T) {
	steps := 0
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		for range stepsPerRun {
			w.step()
			steps++
		}
		if w.server.blind > 0 {
			rt.Fatalf("%d writes without a resourceVersion", w.server.blind)
		}
		w.heal()
	})
	t.Logf("%d steps", steps)
}

// heal lets everything work again: then the truth is published, and nothing is
// written any more.
func (w *world) heal() {
	w.setOutage(nil)
	w.death = deathIsFar
	clear(w.gone)
	w.setLVM(lvmAnswers)
	w.advance(time.Hour)
	for _, pool := range w.pools {
		if got := w.published()[pool]; got != w.truth(pool) {
			w.t.Fatalf("pool %s is published with %d an hour after everything was well, and has %d", pool, got, w.truth(pool))
		}
	}
	tries := w.server.tried(KindNode)
	w.advance(10 * time.Minute)
	if more := w.server.tried(KindNode) - tries; more > 0 {
		w.t.Fatalf("%d writes though nothing changes", more)
	}
	w.server.clientset.ClearActions()
}
