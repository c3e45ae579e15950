package reporter

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// Source knows the pools of this node. Its methods may be called at any time
// from any goroutine.
type Source interface {
	// PoolReadings returns one reading for each configured pool, what LVM said
	// last. It asks LVM nothing and waits only for the very first answer, as long
	// as ctx allows.
	PoolReadings(ctx context.Context) []capacity.PoolReading
	// RefreshPools asks LVM, and returns when it has answered or ctx ends.
	RefreshPools(ctx context.Context) error
	// MaxVolumesPerNode is what NodeGetInfo answers, at least 1.
	MaxVolumesPerNode() (int64, error)
}

// Options configure a [Reporter]. All fields without a stated default are required.
type Options struct {
	DriverName string
	// Version is this program's, BootID the running kernel's.
	Version, BootID string
	Source          Source
	API             API
	// Watch calls observe with each of the two objects whenever it is seen,
	// until ctx ends. If nil, changes by others are noticed only with writes.
	Watch func(ctx context.Context, observe func(Kind, Object))
	// ServerVersion asks the API server for its version, as "v1.37.2". If nil, the
	// versions of Kubernetes are not looked at.
	ServerVersion func(ctx context.Context) (string, error)
	// Changes has a value in it after each change in LVM; may be nil.
	Changes  <-chan struct{}
	Settings Settings
	Metrics  *Metrics
	// Notify tells operators; it must not block. If nil, only the log tells.
	Notify func(Notice)
	// Clock is the machine's monotonic one if nil.
	Clock Clock
}

// Reporter publishes what the pools of one node can hold. Its state belongs to
// the goroutine of Run; other goroutines leave what they know in the inbox and
// wake it.
type Reporter struct {
	opts     Options
	id       identity
	clock    Clock
	now      func() time.Duration // clock.Now
	random   func() float64       // 0 ≤ x < 1, from any goroutine
	wall     func() time.Time
	node     *slot
	csiNode  *slot
	books    *books
	notices  *notices
	guard    guard
	refresh  chan struct{}
	wakeUp   chan struct{}
	lastNote bool
	support  support
	told     bool // of support
	asked    bool // LVM, at firstAsk for the first time
	firstAsk time.Duration

	mu     sync.Mutex
	inbox  map[Kind]Object
	failed bool // a volume found no room since the last look
	// apiServer is its version, empty if it does not tell.
	apiServer      string
	apiServerKnown bool
}

// New makes a reporter; Run starts it.
func New(opts Options) (*Reporter, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if opts.Clock == nil {
		opts.Clock = steadyClock{start: time.Now()}
	}
	return newReporter(opts, rand.Float64), nil //nolint:gosec // spreads load, guards nothing
}

func newReporter(opts Options, random func() float64) *Reporter {
	r := &Reporter{
		opts: opts, clock: opts.Clock, now: opts.Clock.Now, random: random, wall: time.Now,
		id:      identity{driverName: opts.DriverName, version: opts.Version, bootID: opts.BootID},
		books:   newBooks(opts.Settings),
		refresh: make(chan struct{}, 1), wakeUp: make(chan struct{}, 1), inbox: map[Kind]Object{},
	}
	r.notices = newNotices(opts.Notify)
	if opts.Notify == nil {
		r.notices.tell = func(Notice) {}
	}
	newSlot := func(kind Kind) *slot {
		return &slot{
			kind: kind, api: opts.API, pacer: newPacer(opts.Settings, random),
			metrics: opts.Metrics, timeout: opts.Settings.RequestTimeout, now: r.now,
		}
	}
	r.node, r.csiNode = newSlot(KindNode), newSlot(KindCSINode)
	return r
}

func (o Options) validate() error {
	problems := []error{o.Settings.Validate()}
	for what, ok := range map[string]bool{
		"DriverName is empty": o.DriverName != "", "Version is empty": o.Version != "", "Source is nil": o.Source != nil,
		"API is nil": o.API != nil, "Metrics is nil": o.Metrics != nil,
	} {
		if !ok {
			problems = append(problems, errors.New("reporter options: "+what))
		}
	}
	return errors.Join(problems...)
}

// Run publishes until ctx ends. It never fails: what does not work now is tried
// again, and the node serves its volumes meanwhile.
func (r *Reporter) Run(ctx context.Context) {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithName("reporter"))
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { r.refreshLVM(ctx) })
	if r.opts.Watch != nil {
		running.Go(func() { r.opts.Watch(ctx, r.observe) })
	}
	if r.opts.ServerVersion != nil {
		running.Go(func() { r.askVersion(ctx) })
	}
	next := r.clock.After(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-next:
		case <-r.wakeUp:
		case <-r.opts.Changes:
		}
		next = r.clock.After(r.sync(ctx))
	}
}

// VolumeFailed tells that a volume could not be made or extended because there
// was no room: LVM is asked, and recoveries wait.
func (r *Reporter) VolumeFailed() {
	r.mu.Lock()
	r.failed = true
	r.mu.Unlock()
	select {
	case r.refresh <- struct{}{}:
	default:
	}
	r.wake()
}

// observe leaves what the watch saw for the next look.
func (r *Reporter) observe(kind Kind, object Object) {
	r.mu.Lock()
	r.inbox[kind] = object
	r.mu.Unlock()
	r.wake()
}

func (r *Reporter) wake() {
	select {
	case r.wakeUp <- struct{}{}:
	default:
	}
}

// refreshPause is the least time between two refreshes for want of space.
const refreshPause = 5 * time.Second

// refreshLVM asks LVM when a volume found no room. It has its own goroutine,
// because LVM may hang.
func (r *Reporter) refreshLVM(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.refresh:
		}
		if err := r.opts.Source.RefreshPools(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("LVM did not answer", "reason", err.Error())
		}
		r.wake()
		select {
		case <-ctx.Done():
			return
		case <-r.clock.After(refreshPause):
		}
	}
}

// sync compares what should be published with what is, writes if they differ,
// and returns after what time to look again if nothing happens.
func (r *Reporter) sync(ctx context.Context) time.Duration {
	r.empty()
	again := r.syncNode(ctx)
	r.tellSupport(ctx)
	again = min(again, r.syncCSINode(ctx), r.opts.Settings.Resync)
	return max(again, time.Millisecond)
}

// empty takes in what others left in the inbox.
func (r *Reporter) empty() {
	r.mu.Lock()
	seen, failed := r.inbox, r.failed
	r.inbox, r.failed = map[Kind]Object{}, false
	r.mu.Unlock()
	for kind, object := range seen {
		if kind == KindNode {
			r.node.observe(object)
		} else {
			r.csiNode.observe(object)
		}
	}
	if failed {
		r.books.postpone(r.now())
	}
}
