package reporter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// syncNode does one comparison for the Node.
func (r *Reporter) syncNode(ctx context.Context) (again time.Duration) {
	if wait, ok := r.load(ctx, r.node); !ok {
		return wait
	}
	resync := r.opts.Settings.Resync
	if !r.node.known.Found {
		r.guard = guard{}
		return resync
	}
	view := r.id.view(r.node.known)
	readings := r.read(ctx)
	now := r.now()
	r.books.observe(now, readings)
	r.warn(now, readings)
	defer func() { r.opts.Metrics.pools(r.now(), r.id.view(r.node.known).published, r.books) }()

	if pinned := r.pinned(now, view); pinned {
		r.guard.look(r.node.known.UID, view)
		r.guard.attempted = view.mark()
		r.node.pacer.idle()
		return resync
	}
	if r.guard.look(r.node.known.UID, view) {
		r.foreign(ctx, now)
	}
	plan := r.books.next(now, view.published, r.guard.held(now))
	newer := view.reportOK && view.report.NewerThan(r.id.version)
	change, err := r.id.nodeChange(view, plan, view.facts(readings), newer, r.wall())
	if err != nil {
		klog.FromContext(ctx).Error(err, "What the pools hold cannot be published")
		return resync
	}
	if change == nil {
		r.node.pacer.idle()
		if plan.again > now {
			return min(resync, plan.again-now)
		}
		return resync
	}
	if wait := r.node.pacer.wait(now, plan.lowers); wait > 0 {
		return wait
	}
	r.guard.attempted = change.Set[capacity.PoolsAnnotation(r.id.driverName)]
	return r.write(ctx, r.node, *change)
}

// firstAnswer is how long a look waits for LVM's very first answer: a figure
// that was inherited must expire while LVM hangs.
const firstAnswer = time.Second

func (r *Reporter) read(ctx context.Context) []capacity.PoolReading {
	ctx, cancel := context.WithTimeout(ctx, firstAnswer)
	defer cancel()
	return r.opts.Source.PoolReadings(ctx)
}

// write returns when to look again: at once after a success, since the next
// change may be due, and else when requests are allowed again.
func (r *Reporter) write(ctx context.Context, s *slot, change Change) time.Duration {
	err := s.write(ctx, change)
	r.tellForbidden(s, "changed", err)
	r.notices.set(r.now(), s.kind.String(), s.kind == KindCSINode && apierrors.IsInvalid(err), Notice{
		Reason: "CountNotMutable", Warning: true,
		Message: "The API server does not let the CSINode's volume count be changed (mutable since Kubernetes 1.35); " +
			"it stays what it was when the driver registered",
	})
	if err != nil {
		return s.pacer.blocked(r.now())
	}
	klog.FromContext(ctx).V(2).Info("Published", "object", s.kind.String(), "change", change)
	return 0
}

// tellForbidden tells of requests that the API server will not grant by itself. done is
// what was tried.
func (r *Reporter) tellForbidden(s *slot, done string, err error) {
	if err != nil && !apierrors.IsForbidden(err) {
		return // it does not tell what is allowed
	}
	r.notices.during(r.now(), s.kind.String()+"/"+done, err != nil, Notice{
		Reason: "PublishForbidden", Warning: true,
		Message: fmt.Sprintf("The API server forbids this node's %s to be %s; see the roles and policies in deploy/", s.kind, done),
	}, Notice{Reason: "PublishAllowed", Message: fmt.Sprintf("The API server lets this node's %s be %s again", s.kind, done)})
}

// load makes sure that the object is known, or says how long to wait.
func (r *Reporter) load(ctx context.Context, s *slot) (again time.Duration, ok bool) {
	if wait := s.pacer.blocked(r.now()); !s.loaded && wait > 0 {
		return wait, false
	}
	err := s.load(ctx)
	r.tellForbidden(s, "read", err)
	if err != nil {
		return s.pacer.blocked(r.now()), false
	}
	return 0, true
}

// pinned tells whether nothing may be written to the Node now, and says so.
func (r *Reporter) pinned(now time.Duration, view nodeView) bool {
	s := r.opts.Settings
	paused := s.Paused || view.paused || s.Where != nil && !s.Where.Matches(view.labels)
	closed := !s.ForceTakeover && view.reportOK && view.report.NewerThan(r.id.version)
	r.opts.Metrics.paused.Set(boolean(paused))
	r.opts.Metrics.gate.Set(boolean(closed))
	r.notices.set(now, "", paused, Notice{
		Reason: "CapacityPaused", Message: "What this node publishes of its pools is pinned, by the annotation " +
			capacity.PauseAnnotation(r.id.driverName) + ", by --publish-paused, or because the Node's labels are not those of --publish-selector",
	})
	r.notices.set(now, "", closed, Notice{
		Reason: "CapacityVersionGate", Warning: true,
		Message: fmt.Sprintf("Version %s wrote the capacity of this node's pools, and version %s runs here: nothing is published until "+
			"a version as new runs, or with --force-takeover", view.report.Writer, r.id.version),
	})
	if paused || closed {
		r.lastNote = true
		return true
	}
	if r.lastNote {
		// Whatever was published meanwhile was not ours, or is old.
		r.books.recover()
		r.lastNote = false
	}
	return false
}

func (r *Reporter) foreign(ctx context.Context, now time.Duration) {
	r.guard.hold(now, r.opts.Settings)
	r.books.recover()
	r.opts.Metrics.foreign.Inc()
	klog.FromContext(ctx).Info("Somebody else changed the pools' annotation; nothing is raised for a while",
		"annotation", capacity.PoolsAnnotation(r.id.driverName), "holdDown", r.opts.Settings.HoldDown)
	notice := Notice{
		Reason: "ForeignCapacityWriter", Warning: true,
		Message: "Somebody else changed the annotation " + capacity.PoolsAnnotation(r.id.driverName) + "; figures are lowered as needed and not raised for a while",
	}
	r.notices.set(now, "", true, notice)
	r.notices.set(now, "", false, notice)
}

// startPatience is how long nobody is told that LVM does not answer a process that has
// just started: on a node that boots everything is slow.
const startPatience = 30 * time.Second

// warn tells of pools that cannot be read or take nothing more.
func (r *Reporter) warn(now time.Duration, readings []capacity.PoolReading) {
	if !r.asked {
		r.asked, r.firstAsk = true, now
	}
	for _, reading := range readings {
		early := now-r.firstAsk < startPatience && errors.Is(reading.Err, context.DeadlineExceeded)
		reason := ""
		if reading.Err != nil {
			reason = ": " + reading.Err.Error()
		}
		r.notices.during(now, reading.Pool, reading.Err != nil && !early, Notice{
			Reason: "PoolUnreadable", Warning: true,
			Message: fmt.Sprintf("Pool %s cannot be read%s. Its last figure counts for a while, then it is published as 0", reading.Pool, reason),
		}, Notice{Reason: "PoolReadable", Message: fmt.Sprintf("Pool %s can be read again", reading.Pool)})
		if reading.Err != nil {
			continue // how full it is is not known
		}
		r.notices.during(now, reading.Pool, reading.AtWatermark, Notice{
			Reason: "PoolAtWatermark", Warning: true,
			Message: fmt.Sprintf("Thin pool %s is so full that it takes no new volumes; extend it or delete volumes", reading.Pool),
		}, Notice{Reason: "PoolBelowWatermark", Message: fmt.Sprintf("Thin pool %s takes new volumes again", reading.Pool)})
	}
}

// syncCSINode does one comparison for the CSINode. The driver's entry belongs to
// kubelet: while it is not there, nothing is done.
func (r *Reporter) syncCSINode(ctx context.Context) (again time.Duration) {
	resync := r.opts.Settings.Resync
	if r.opts.Settings.Paused {
		return resync
	}
	if wait, ok := r.load(ctx, r.csiNode); !ok {
		return wait
	}
	known := r.csiNode.known
	if !known.Found || !known.Registered {
		r.opts.Metrics.count.Set(-1)
		r.csiNode.pacer.idle()
		return resync
	}
	r.opts.Metrics.count.Set(float64(known.Count))
	count, err := r.opts.Source.MaxVolumesPerNode()
	if err != nil {
		klog.FromContext(ctx).Error(err, "The number of volumes is not known")
		return resync
	}
	count = min(max(count, 1), math.MaxInt32) // 0 would mean no limit
	if count == known.Count || r.support.fixedCount() {
		r.csiNode.pacer.idle()
		return resync
	}
	if wait := r.csiNode.pacer.wait(r.now(), count < known.Count || known.Count < 0); wait > 0 {
		return wait
	}
	return r.write(ctx, r.csiNode, Change{Count: count})
}
