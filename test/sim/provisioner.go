package sim

// provisioner is one csi-provisioner, and the driver that it calls.
//
// Sources: https://github.com/kubernetes-csi/external-provisioner/blob/master/cmd/csi-provisioner/csi-provisioner.go
// (flags), pkg/controller/controller.go (checkError: ResourceExhausted means
// ProvisioningReschedule); https://github.com/kubernetes-sigs/sig-storage-lib-external-provisioner/blob/master/controller/controller.go
// (provisionClaimOperation, rescheduleProvisioning, deleteVolumeOperation).
type provisioner struct {
	client *client
	events *lane
	// threads are free worker threads; work waits for one.
	threads int
	work    []func()
}

// Defaults of csi-provisioner's flags --kube-api-qps, --kube-api-burst and
// --worker-threads.
const (
	provisionerQPS   = 5
	provisionerBurst = 10
	workerThreads    = 100
)

// provisioners are all of them: one, or one on each node.
type provisioners struct {
	cluster *cluster
	tracker tracker
	all     []*provisioner
}

func newProvisioners(c *cluster, central bool) *provisioners {
	ps := &provisioners{cluster: c, tracker: untracked{}, all: make([]*provisioner, len(c.nodes))}
	for i := range ps.all {
		if central && i > 0 {
			ps.all[i] = ps.all[0]
			continue
		}
		p := &provisioner{client: c.newClient("csi-provisioner", provisionerQPS, provisionerBurst), threads: workerThreads}
		p.events = &lane{client: p.client, limit: maxQueuedEvents}
		ps.all[i] = p
	}
	c.watch(ps)
	return ps
}

// sawClaim is shouldProvision: a volume is wanted, here, and there is none.
func (ps *provisioners) sawClaim(c *claim, now claimState) {
	if now.selected == none || !now.annotated || now.bound || now.deleted || c.creating || c.volume.phase != volumeMissing {
		return
	}
	c.creating = true
	p := ps.all[now.selected]
	p.run(func() { ps.create(p, c, now.selected) })
}

func (p *provisioner) run(work func()) {
	if p.threads == 0 {
		p.work = append(p.work, work)
		return
	}
	p.threads--
	work()
}

// free ends a thread's work.
func (p *provisioner) free() {
	p.threads++
	if len(p.work) > 0 {
		work := p.work[0]
		p.work = p.work[1:]
		p.run(work)
	}
}

// create is CreateVolume and what follows it.
func (ps *provisioners) create(p *provisioner, c *claim, at int) {
	n := ps.cluster.nodes[at]
	made := false
	p.events.event() // Provisioning
	ps.cluster.onNode(n, c.createTime, func() {
		if made = c.bytes <= n.available(); made {
			n.allocated += c.bytes
			c.volume.node = at
		}
	}, func() {
		p.events.event() // ProvisioningSucceeded or ProvisioningFailed
		if !made {
			ps.cluster.failedCreates++
			ps.tracker.refused(at)
			p.client.write(func() { ps.reschedule(p, c) })
			return
		}
		ps.tracker.poolChanged(at)
		p.free()
		p.client.write(func() {
			c.creating = false
			ps.cluster.changeVolume(c, volumeMade)
		})
	})
}

// reschedule removes selected-node, so that the scheduler chooses anew.
func (ps *provisioners) reschedule(p *provisioner, c *claim) {
	ps.cluster.promise(c, none)
	c.creating = false
	ps.cluster.changeClaim(c, func(now *claimState) { now.selected = none })
	p.free()
}

// sawVolume is shouldDelete, and deleteVolumeOperation: DeleteVolume, then two
// requests, the deletion and the end of the finalizer.
func (ps *provisioners) sawVolume(c *claim, now volumeState) {
	if now.phase != volumeReleased {
		return
	}
	at := now.node
	p, n := ps.all[at], ps.cluster.nodes[at]
	ps.cluster.onNode(n, around(ps.cluster.random, ps.cluster.timing.DeleteVolume), func() {}, func() {
		n.allocated -= c.bytes
		ps.cluster.promise(c, none)
		ps.tracker.poolChanged(at)
		p.client.write(func() {
			p.client.write(func() { ps.cluster.volumeGone(c) })
		})
	})
}
