package sim

import "time"

// binder is the persistent volume controller of kube-controller-manager: it asks
// provisioners for volumes, and binds claims to them. It has one worker for
// claims and one for volumes, and one client for all its requests, events
// included; so it is what limits how many volumes a cluster makes in a second.
//
// Source: https://github.com/kubernetes/kubernetes/blob/v1.37.2/pkg/controller/volume/persistentvolume/pv_controller.go
// and pv_controller_base.go.
type binder struct {
	cluster *cluster
	client  *client
	queue   *workQueue[*claim]
	volumes *lane
	events  *lane
	seen    []binderView
}

// binderView is what the controller knows of one claim.
type binderView struct {
	claim  claimState
	volume volumeState
	// asking: the operation that asks for a volume runs.
	asking bool
	// spam limits the events of one object.
	spam *limiter
	// released: the volume was, or is being, marked so.
	released bool
}

const (
	// resyncPeriod: pkg/controller/volume/persistentvolume/options/options.go, PVClaimBinderSyncPeriod.
	resyncPeriod = 15 * time.Second
	// k8s.io/client-go/tools/record/events_cache.go, defaultSpamBurst and defaultSpamQPS.
	spamBurst = 25
	spamQPS   = 1. / 300
)

func newBinder(c *cluster) *binder {
	b := &binder{cluster: c, client: c.newClient("kube-controller-manager", c.platform.ControllerQPS, c.platform.ControllerBurst), seen: make([]binderView, len(c.claims))}
	b.volumes, b.events = &lane{client: b.client}, &lane{client: b.client, limit: maxQueuedEvents}
	b.queue = newWorkQueue(b.work)
	for i := range b.seen {
		b.seen[i].claim.selected = none
	}
	c.watch(b)
	c.every(resyncPeriod, resyncPeriod, b.resync)
	return b
}

// resync looks at all claims again. Those that are bound or gone need nothing.
func (b *binder) resync() {
	for i, c := range b.cluster.claims {
		if now := b.seen[i].claim; now.version > 0 && !now.bound && !now.deleted {
			b.queue.add(c)
		}
	}
}

func (b *binder) sawClaim(c *claim, now claimState) {
	// Its own writes are in its store before the informer has them.
	if view := &b.seen[c.id]; view.claim.version < now.version {
		view.claim = now
	}
	b.queue.add(c)
}

func (b *binder) sawVolume(c *claim, now volumeState) {
	b.seen[c.id].volume = now
	b.queue.add(c)
}

// work is syncClaim, and syncVolume where it does anything.
func (b *binder) work(c *claim, done func()) {
	view := &b.seen[c.id]
	switch {
	case view.claim.deleted:
		b.release(c, view)
		done()
	case view.claim.version == 0 || view.claim.bound:
		done()
	case view.volume.exists():
		b.bind(c, view, done)
	case view.claim.selected == none:
		// emitEventForUnboundDelayBindingClaim
		b.event(c, view)
		done()
	default:
		b.ask(c, view)
		done()
	}
}

// bind is ctrl.bind: the volume's phase, the claim's volume, the claim's phase.
// (The volume names the claim already, so bindVolumeToClaim writes nothing.)
func (b *binder) bind(c *claim, view *binderView, done func()) {
	b.client.write(func() {
		b.cluster.changeVolume(c, volumeBound)
		b.client.write(func() {
			b.cluster.changeClaim(c, func(now *claimState) { now.bound = true })
			view.claim = c.api
			b.client.write(func() {
				b.cluster.changeClaim(c, func(*claimState) {})
				done()
			})
		})
	})
}

// ask is provisionClaimOperationExternal: it says once who is to make the volume,
// and writes an event each time. It runs beside the worker, once for each claim.
func (b *binder) ask(c *claim, view *binderView) {
	switch {
	case view.asking:
	case view.claim.annotated:
		b.event(c, view)
	default:
		view.asking = true
		b.client.write(func() {
			view.asking = false
			b.cluster.changeClaim(c, func(now *claimState) { now.annotated = true })
			view.claim = c.api
			b.event(c, view)
		})
	}
}

// release marks the volume of a claim that is gone, for its provisioner.
func (b *binder) release(c *claim, view *binderView) {
	if !view.volume.exists() || view.released {
		return
	}
	view.released = true
	b.volumes.add(func() { b.cluster.changeVolume(c, volumeReleased) })
}

func (b *binder) event(_ *claim, view *binderView) {
	if view.spam == nil {
		view.spam = newLimiter(b.cluster.clock, spamQPS, spamBurst)
		view.spam.at = b.cluster.now
	}
	if view.spam.try() {
		b.events.event()
	}
}
