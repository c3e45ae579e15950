package storm

// anyFits tells whether a pod that waits would fit on some node.
func (s *storm) anyFits() bool { return s.stuckThatFit() > 0 }

// stuckThatFit counts the pods that have no node, though one has room for them, or
// their volume already.
func (s *storm) stuckThatFit() (count int) {
	roomiest := s.fleet.roomiestBytes()
	for _, p := range s.w.pods {
		if _, bound := s.observer.nodeOf(p.name); !bound && (s.o.WithoutVolumes || p.bytes <= roomiest || s.fleet.made(p.name)) {
			count++
		}
	}
	return count
}

// misplaced counts the pods whose volume is not bound on their node.
func (s *storm) misplaced() (count int) {
	if s.o.WithoutVolumes {
		return 0
	}
	for _, p := range s.w.pods {
		if node, bound := s.observer.nodeOf(p.name); bound && !s.fleet.holds(node, p.name) {
			count++
		}
	}
	return count
}

func (s *storm) record() Record {
	r := Record{
		Name: s.o.Name(), Tracking: s.o.Tracking, WithoutVolumes: s.o.WithoutVolumes, Nodes: s.o.Nodes, PodsPerNode: s.o.PodsPerNode,
		FillPercent: s.o.FillPercent, Seed: s.o.Seed, PodsPerSecond: s.o.PodsPerSecond, Turns: s.turnsDone,
		DemandBytes: s.w.demandBytes(), CapacityBytes: s.w.capacityBytes * int64(s.o.Nodes), Pods: len(s.w.pods),
		StuckThatFit: s.stuckThatFit(), Misplaced: s.misplaced(), CreateSeconds: s.created.Sub(s.begun).Seconds(),
		SchedulerKills: s.schedulers.kills, SchedulerExits: s.schedulers.exits, Takeovers: s.schedulers.takeovers,
	}
	r.Volumes, r.FailedCreates = s.fleet.counts()
	r.UsedBytes = r.CapacityBytes
	for _, p := range s.fleet.provisioners {
		r.UsedBytes -= p.pool.freeBytes()
	}
	_, r.Bound = s.observer.counts()
	if r.Bound > 0 {
		r.Seconds = s.observer.lastBound().Sub(s.begun).Seconds()
		all := s.observer.latencies()
		at := func(percent int) float64 { return all[(len(all)-1)*percent/100].Seconds() }
		r.LatencyP50, r.LatencyP99 = at(50), at(99)
	}
	return r
}
