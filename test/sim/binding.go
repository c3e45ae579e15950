package sim

import "time"

// Sources: pkg/scheduler/framework/plugins/volumebinding/binder.go, BindPodVolumes;
// pkg/scheduler/apis/config/v1/defaults.go, BindTimeoutSeconds.
const (
	bindPoll    = time.Second
	bindTimeout = 600 * time.Second
)

// bind is the binding cycle: VolumeBinding writes selected-node to the claims,
// one after the other, and looks each second whether they are bound.
func (s *scheduler) bind(p *pod) {
	p.sched.wrote = make([]int, len(p.claims))
	for i, c := range p.claims {
		p.sched.wrote[i] = s.claims[c.id].version
	}
	s.writeClaims(p, 0, false)
}

func (s *scheduler) writeClaims(p *pod, i int, wrote bool) {
	for i < len(p.claims) && s.claims[p.claims[i].id].bound {
		i++
	}
	switch {
	case i < len(p.claims):
		c := p.claims[i]
		s.client.write(func() {
			if c.api.version != p.sched.wrote[i] { // a conflict
				s.failBinding(p)
				return
			}
			if c.api.selected == none {
				s.cluster.changeClaim(c, func(now *claimState) { now.selected = p.sched.node })
				p.sched.wrote[i] = c.api.version
			}
			s.writeClaims(p, i+1, true)
		})
	case wrote:
		p.sched.pollsFrom = s.cluster.now
		s.pollAt(p, bindTimeout)
		s.pollSoon(p)
	default: // nothing to wait for (volume_binding.go, PreBindPreFlight)
		s.client.write(func() { s.bound(p) })
	}
}

// pollSoon lets the next of the binding cycle's looks happen. Looks that would
// see nothing new are left out.
func (s *scheduler) pollSoon(p *pod) {
	q := &p.sched
	if q.pollsFrom == 0 || q.pollDue > s.cluster.now {
		return
	}
	next := (s.cluster.now-q.pollsFrom)/bindPoll*bindPoll + bindPoll
	q.pollDue = q.pollsFrom + next
	s.pollAt(p, next)
}

func (s *scheduler) pollAt(p *pod, since time.Duration) {
	from := p.sched.pollsFrom
	s.cluster.at(from+since, func() {
		if p.sched.pollsFrom == from {
			s.poll(p)
		}
	})
}

// poll looks whether the claims are bound.
//
// Source: binder.go, checkBindings.
func (s *scheduler) poll(p *pod) {
	wait := false
	for i, c := range p.claims {
		seen := s.claims[c.id]
		switch {
		case seen.version < p.sched.wrote[i]:
			wait = true
		case seen.selected != p.sched.node:
			s.failBinding(p)
			return
		case !seen.bound || !s.volumes[c.id].exists():
			wait = true
		}
	}
	switch {
	case !wait:
		p.sched.pollsFrom = 0
		s.client.write(func() { s.bound(p) })
	case s.cluster.now >= p.sched.pollsFrom+bindTimeout:
		s.failBinding(p)
	}
}

func (s *scheduler) bound(p *pod) {
	p.sched.state = ended
	s.failed(s.tracker.postBind(p))
	s.cluster.podBound(p, func() {
		s.cluster.after(s.client.latency(), func() { s.podGone(p) })
	})
}

func (s *scheduler) podGone(p *pod) {
	s.podsOn[p.sched.node]--
	s.wake(anyOf(byResources))
}

// failBinding takes the cycle back and tries again after a backoff; for a failed
// PreBind nothing else is waited for.
//
// Source: pkg/scheduler/schedule_one.go, handleBindingCycleError (which tells the
// queue of a pod that is gone); scheduling_queue.go, determineSchedulingHintForInFlightPod.
func (s *scheduler) failBinding(p *pod) {
	q := &p.sched
	node := q.node
	q.node, q.pollsFrom = none, 0
	for _, c := range p.claims {
		if c.api.selected == none { // not written, or taken back
			s.cluster.promise(c, none)
		}
	}
	s.failed(s.tracker.unreserve(p, node))
	s.podsOn[node]--
	s.wake(anyOf(byResources))
	q.errors++
	q.backoffUntil = s.cluster.now + backoff(q.errors)
	s.tell(p, "binding failed")
	s.backOff(p)
}

// sawClaim: the claim's own pod is worth another try.
//
// Source: volume_binding.go, isSchedulableAfterPersistentVolumeClaimChange.
func (s *scheduler) sawClaim(c *claim, now claimState) {
	before := s.claims[c.id]
	s.claims[c.id] = now
	s.failed(s.tracker.sawClaim(c, before, now))
	s.pollSoon(c.pod)
	s.wake(func(p *pod) bool { return p == c.pod && p.sched.rejected&byBinding != 0 })
}

// sawVolume: VolumeBinding has no hint for volumes, so each that comes or changes
// wakes all pods that it refused.
//
// Source: volume_binding.go, EventsToRegister.
func (s *scheduler) sawVolume(c *claim, now volumeState) {
	before := s.volumes[c.id]
	s.volumes[c.id] = now
	s.failed(s.tracker.sawVolume(c, before, now))
	s.pollSoon(c.pod)
	if now.exists() {
		s.wake(anyOf(byBinding))
	}
}
