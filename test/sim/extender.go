package sim

import "math"

// extender is a scheduler extender that reads what is available from an
// annotation of the Node, which an agent on the node writes after each change of
// the pool. It reserves nothing.
//
// Source, for one of that kind: https://github.com/topolvm/topolvm/tree/main/internal:
// scheduler/predicate.go (filterNode), scheduler/prioritize.go (capacityToScore),
// runners/metrics_exporter.go (updateNode), lvmd/vgservice.go (Watch: notifications
// that come while one is sent are one).
type extender struct {
	untracked
	scheduler *scheduler
	agents    []*agent
	// seen is what the scheduler's informer has of the annotations, in bytes.
	seen []int64
}

// agent writes a node's annotation.
type agent struct {
	client  *client
	queue   *workQueue[int]
	watched *stream
}

// Defaults of a client made by controller-runtime.
//
// Source: https://github.com/kubernetes-sigs/controller-runtime/blob/main/pkg/client/config/config.go, GetConfigWithContext.
const agentQPS, agentBurst = 20, 30

func newExtender(s *scheduler) *extender {
	e := &extender{scheduler: s}
	for _, n := range s.cluster.nodes {
		a := &agent{client: s.cluster.newClient("node agent", agentQPS, agentBurst), watched: s.cluster.newStream()}
		a.queue = newWorkQueue(func(node int, done func()) { e.publish(a, node, done) })
		e.agents = append(e.agents, a)
		e.seen = append(e.seen, n.poolBytes)
	}
	return e
}

// fits compares what the pod's claims ask for together. (Topolvm's webhook notes
// that in the pod once and for all, so a pod whose binding timed out is refused on
// the node where its volumes are, if that is full. Here only claims without a
// volume count: what is measured is the missing reservation.)
func (e *extender) fits(p *pod, node int) bool {
	var sum int64
	for _, c := range p.claims {
		if !e.scheduler.claims[c.id].bound {
			sum += c.bytes
		}
	}
	return sum <= e.seen[node]
}

// score goes from 1 to 10, which the scheduler takes ten times.
//
// Source: kubernetes pkg/scheduler/schedule_one.go, prioritizeNodes: MaxNodeScore / MaxExtenderPriority.
func (e *extender) score(_ *pod, nodes []int, into []int64) {
	for i, node := range nodes {
		points := int64(0)
		if size := e.seen[node]; size > 0 {
			points = min(10, max(1, int64(math.Log2(float64(size/gib)))))
		}
		into[i] += points * 10
	}
}

func (e *extender) poolChanged(node int) { e.agents[node].queue.add(node) }

// publish patches the annotation. Any event wakes pods that an extender refused.
//
// Source: kubernetes pkg/scheduler/framework/runtime/framework.go, defaultEnqueueExtension.
func (e *extender) publish(a *agent, node int, done func()) {
	bytes := e.scheduler.cluster.nodes[node].available()
	a.client.write(func() {
		a.watched.send(func() {
			e.seen[node] = bytes
			e.scheduler.wake(anyOf(byTracker))
		})
		done()
	})
}

func (e *extender) sawClaim(*claim, claimState, claimState) error {
	e.scheduler.wake(anyOf(byTracker))
	return nil
}

func (e *extender) sawVolume(*claim, volumeState, volumeState) error {
	e.scheduler.wake(anyOf(byTracker))
	return nil
}
