package storm

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// fleet has what runs on every node. The provisioners share one watch of the
// claims, because a hundred of them would be most of the load on one machine.
type fleet struct {
	provisioners map[string]*provisioner // by node
	claims       cache.SharedIndexInformer
	factory      informers.SharedInformerFactory
	work         sync.WaitGroup
}

func newFleet(admin *rest.Config, o Options, capacityBytes int64) (*fleet, error) {
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return nil, err
	}
	f := &fleet{provisioners: map[string]*provisioner{}, factory: informers.NewSharedInformerFactory(client, 0)}
	f.claims = f.factory.Core().V1().PersistentVolumeClaims().Informer()
	for i := range o.Nodes {
		name, pool := nodeName(i), newPool(capacityBytes)
		client, err := limitedClient(admin, provisionerQPS, provisionerBurst)
		if err != nil {
			return nil, err
		}
		p := newProvisioner(name, client, pool, f.claims.GetStore(), o, uint64(i))
		if o.Tracking == InTree {
			client, err := limitedClient(admin, capacityQPS, capacityBurst)
			if err != nil {
				return nil, err
			}
			p.publisher = newPublisher(name, client, pool)
		}
		f.provisioners[name] = p
	}
	route := func(object any) {
		claim, ok := object.(*v1.PersistentVolumeClaim)
		if !ok {
			return
		}
		if p := f.provisioners[claim.Annotations[storagehelpers.AnnSelectedNode]]; p != nil && p.concerned(claim) {
			p.queue.Add(claim.Namespace + "/" + claim.Name)
		}
	}
	_, err = f.claims.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: route, UpdateFunc: func(_, object any) { route(object) }})
	return f, err
}

func limitedClient(admin *rest.Config, qps float32, burst int) (kubernetes.Interface, error) {
	config := rest.CopyConfig(admin)
	config.QPS, config.Burst = qps, burst
	return kubernetes.NewForConfig(config)
}

// start returns when the provisioners are at work and capacity is published. They
// work until ctx ends; wait returns then.
func (f *fleet) start(ctx context.Context) error {
	f.factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), f.claims.HasSynced) {
		return fmt.Errorf("watching claims: %w", ctx.Err())
	}
	for _, p := range f.provisioners {
		f.work.Go(func() { p.run(ctx) })
		if p.publisher != nil {
			f.work.Go(func() { p.publisher.run(ctx) })
		}
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
		for _, p := range f.provisioners {
			if p.publisher != nil && !p.publisher.published() {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("publishing capacity: %w", err)
	}
	return nil
}

// wait returns when all has ended after start's ctx.
func (f *fleet) wait() {
	f.work.Wait()
	f.factory.Shutdown()
}

// counts are of all nodes together.
func (f *fleet) counts() (volumes, refused int) {
	for _, p := range f.provisioners {
		v, r := p.pool.counts()
		volumes, refused = volumes+v, refused+r
	}
	return volumes, refused
}

// roomiestBytes is what is free on the node with the most.
func (f *fleet) roomiestBytes() (most int64) {
	for _, p := range f.provisioners {
		most = max(most, p.pool.freeBytes())
	}
	return most
}

// made tells whether the claim's volume is there.
func (f *fleet) made(claim string) bool {
	c := f.claim(claim)
	if c == nil {
		return false
	}
	p := f.provisioners[c.Annotations[storagehelpers.AnnSelectedNode]]
	return p != nil && p.pool.has(volumeName(c))
}

// holds tells whether the claim is bound to a volume on the node.
func (f *fleet) holds(node, claim string) bool {
	c, p := f.claim(claim), f.provisioners[node]
	return c != nil && p != nil && c.Status.Phase == v1.ClaimBound && c.Spec.VolumeName == volumeName(c) && p.pool.has(volumeName(c))
}

// claim is nil if there is none of the name.
func (f *fleet) claim(name string) *v1.PersistentVolumeClaim {
	object, there, err := f.claims.GetStore().GetByKey(namespace + "/" + name)
	if err != nil || !there {
		return nil
	}
	claim, _ := object.(*v1.PersistentVolumeClaim)
	return claim
}
