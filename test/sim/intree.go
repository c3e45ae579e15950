package sim

import "time"

// inTree is VolumeBinding with CSIStorageCapacity objects, which csi-provisioner
// writes: one for each node (there is one class).
//
// Sources: https://github.com/kubernetes/kubernetes/blob/v1.37.2/pkg/scheduler/framework/plugins/volumebinding/binder.go
// (hasEnoughCapacity, capacitySufficient), volume_binding.go (Score,
// isSchedulableAfterCSIStorageCapacityChange); KEP-1472.
type inTree struct {
	untracked
	scheduler *scheduler
	// publishers has the publisher of each node's object.
	publishers []*publisher
	// objects are in the API, seen is what the scheduler's informer has, in bytes.
	objects []capacityObject
	seen    []int64
}

type capacityObject struct {
	version int
	bytes   int64
}

func newInTree(s *scheduler, central bool) *inTree {
	t := &inTree{scheduler: s, publishers: make([]*publisher, len(s.cluster.nodes))}
	for i, n := range s.cluster.nodes {
		t.objects = append(t.objects, capacityObject{version: 1, bytes: n.poolBytes})
		t.seen = append(t.seen, n.poolBytes)
		if central && i > 0 {
			t.publishers[i] = t.publishers[0]
			t.publishers[0].nodes = append(t.publishers[0].nodes, i)
			continue
		}
		t.publishers[i] = newPublisher(t, i)
	}
	return t
}

// fits: each claim is looked at alone, and nothing is reserved.
func (t *inTree) fits(p *pod, node int) bool {
	for _, c := range p.claims {
		if t.scheduler.claims[c.id].selected == none && c.bytes > t.seen[node] {
			return false
		}
	}
	return true
}

// score prefers nodes that would be used least; the default shape goes from 100
// at no utilisation to 0 at full.
//
// Sources: volume_binding.go, Score; scorer.go; pkg/scheduler/apis/config/v1/defaults.go,
// SetDefaults_VolumeBindingArgs.
func (t *inTree) score(p *pod, nodes []int, into []int64) {
	if !t.scheduler.cluster.platform.CapacityScoring {
		return
	}
	var requested int64
	for _, c := range p.claims {
		if t.scheduler.claims[c.id].selected == none {
			requested += c.bytes
		}
	}
	if requested == 0 {
		return
	}
	for i, node := range nodes {
		if available := t.seen[node]; requested <= available {
			into[i] += 100 - requested*100/available
		}
	}
}

// poolChanged and refused are the provisioner's wrapper about Provision and
// Delete: after success the node's object is looked at, after a failure all
// objects of the class that this provisioner has.
//
// Source: https://github.com/kubernetes-csi/external-provisioner/blob/master/pkg/capacity/provision.go
func (t *inTree) poolChanged(node int) { t.publishers[node].queue.add(node) }

func (t *inTree) refused(node int) { t.publishers[node].poll() }

// publisher is a csi-provisioner's capacity controller.
//
// Source: https://github.com/kubernetes-csi/external-provisioner/blob/master/pkg/capacity/capacity.go
type publisher struct {
	tree   *inTree
	client *client
	queue  *workQueue[int]
	// nodes are those whose objects it writes; known is what its informer has of
	// them, failures how often in a row writing failed.
	nodes    []int
	known    []capacityObject
	failures []int
	// watch is its own informer, watched the scheduler's.
	watch, watched *stream
}

// Defaults of csi-provisioner's flags --kube-api-capacity-qps,
// --kube-api-capacity-burst, --capacity-poll-interval, --retry-interval-start and
// --retry-interval-max; --capacity-threads is 1, as workQueue has it.
const (
	capacityQPS   = 1
	capacityBurst = 5
	capacityPoll  = time.Minute
	retryStart    = time.Second
	retryMax      = 5 * time.Minute
)

func newPublisher(t *inTree, node int) *publisher {
	c := t.scheduler.cluster
	p := &publisher{tree: t, client: c.newClient("csi-provisioner capacity", capacityQPS, capacityBurst), nodes: []int{node},
		known: make([]capacityObject, len(c.nodes)), failures: make([]int, len(c.nodes)), watch: c.newStream(), watched: c.newStream()}
	for i, n := range c.nodes {
		p.known[i] = capacityObject{version: 1, bytes: n.poolBytes}
	}
	p.queue = newWorkQueue(p.sync)
	// They were started at any time.
	c.every(time.Duration(c.random.Int64N(int64(capacityPoll))), capacityPoll, p.poll)
	return p
}

// poll looks at all objects.
func (p *publisher) poll() {
	for _, node := range p.nodes {
		p.queue.add(node)
	}
}

// sync is syncCapacity: it asks the driver, and writes if the figure is another
// than in its informer's cache. It does not remember what it wrote; a write that
// follows before the informer has the last one is a conflict.
func (p *publisher) sync(node int, done func()) {
	c := p.tree.scheduler.cluster
	c.after(around(c.random, c.timing.GetCapacity), func() {
		bytes, known := c.nodes[node].available(), p.known[node]
		if bytes == known.bytes {
			p.failures[node] = 0
			done()
			return
		}
		p.client.write(func() {
			defer done()
			if p.tree.objects[node].version != known.version {
				p.failures[node]++
				c.after(min(retryMax, retryStart<<min(p.failures[node]-1, 20)), func() { p.queue.add(node) })
				return
			}
			p.failures[node] = 0
			p.tree.objects[node] = capacityObject{version: known.version + 1, bytes: bytes}
			p.tell(node, p.tree.objects[node])
		})
	})
}

// tell delivers the object to both informers. A figure that rises wakes the pods
// that VolumeBinding refused.
func (p *publisher) tell(node int, object capacityObject) {
	p.watch.send(func() { p.known[node] = object })
	p.watched.send(func() {
		rises := object.bytes > p.tree.seen[node]
		p.tree.seen[node] = object.bytes
		if rises {
			p.tree.scheduler.wake(anyOf(byBinding))
		}
	})
}
