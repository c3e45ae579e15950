package controller

import (
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// nodeBook knows which nodes there are, since when others are missing, and
// which pools are published. All methods may be called at the same time.
//
// Presence and the beginning of absence are under one lock and change with the
// Node's own events only. If each reader looked into the cache and then wrote
// down the time, a Node that came and went between the two would inherit the
// time of an earlier absence, and its delay would be over at once.
type nodeBook struct {
	driverName string

	mu sync.Mutex
	// nodes by name; hosts are the nodes that answer to a name.
	nodes map[string]nodeEntry
	hosts map[string]map[string]struct{}
	// missing is when somebody first asked for a host that no node has.
	missing map[string]time.Time
	// pools counts the nodes that publish each pool.
	pools map[string]int
}

type nodeEntry struct {
	hosts     []string
	published bool
	value     string
	pools     []string
	// unreadable: the annotation is there and is no list of pools.
	unreadable bool
}

func newNodeBook(driverName string) *nodeBook {
	return &nodeBook{
		driverName: driverName, nodes: map[string]nodeEntry{}, hosts: map[string]map[string]struct{}{},
		missing: map[string]time.Time{}, pools: map[string]int{},
	}
}

// nodeHosts are all the names a volume may have for the node: that of the
// object, its hostname label and its topology label. Whoever answers to one of
// them is there, so that in doubt a node counts as present.
func nodeHosts(driverName string, node *metav1.ObjectMeta) []string {
	hosts := []string{node.Name}
	for _, label := range []string{v1.LabelHostname, capacity.TopologyKey(driverName)} {
		if host := node.Labels[label]; host != "" && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// set takes in a Node as it is now, and tells whether the set of published pool
// names has changed.
func (b *nodeBook) set(node *metav1.ObjectMeta) (poolsChanged bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.nodes[node.Name]
	value, published := node.Annotations[capacity.PoolsAnnotation(b.driverName)]
	entry := nodeEntry{hosts: nodeHosts(b.driverName, node), published: published, value: value}
	switch {
	case before.published && before.value == value:
		entry.pools, entry.unreadable = before.pools, before.unreadable
	case published:
		entry.pools, entry.unreadable = poolNames(value)
	}
	b.nodes[node.Name] = entry
	b.place(node.Name, before.hosts, entry.hosts)
	return b.count(before.pools, entry.pools) || before.unreadable != entry.unreadable
}

// poolNames are the pools that the annotation names, whether or not their
// figures can be read.
func poolNames(value string) (names []string, unreadable bool) {
	pools, bad, err := capacity.DecodePools(value)
	if err != nil {
		return nil, true
	}
	return append(slices.Sorted(maps.Keys(pools)), slices.Sorted(maps.Keys(bad))...), false
}

// remove takes in that a Node is gone, and returns what it was called.
func (b *nodeBook) remove(name string) (hosts []string, poolsChanged bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.nodes[name]
	delete(b.nodes, name)
	b.place(name, before.hosts, nil)
	return before.hosts, b.count(before.pools, nil) || before.unreadable
}

// place moves a node from the names it had to those it has. The lock is held.
func (b *nodeBook) place(name string, before, now []string) {
	for _, host := range before {
		delete(b.hosts[host], name)
		if len(b.hosts[host]) == 0 {
			delete(b.hosts, host)
		}
	}
	for _, host := range now {
		if b.hosts[host] == nil {
			b.hosts[host] = map[string]struct{}{}
		}
		b.hosts[host][name] = struct{}{}
		delete(b.missing, host)
	}
}

// count tells whether a pool has come into being or has vanished. The lock is held.
func (b *nodeBook) count(before, now []string) (changed bool) {
	for _, pool := range now {
		b.pools[pool]++
	}
	for _, pool := range before {
		b.pools[pool]--
	}
	for _, pool := range before {
		if count, counted := b.pools[pool]; counted && count == 0 {
			delete(b.pools, pool)
			changed = true
		}
	}
	for _, pool := range now {
		changed = changed || b.pools[pool] == 1 && !slices.Contains(before, pool)
	}
	return changed
}

// missingSince tells whether no node is called host, and since when: the first
// question about it begins the time.
func (b *nodeBook) missingSince(host string, now time.Time) (since time.Time, missing bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.hosts[host]) > 0 {
		return time.Time{}, false
	}
	since, asked := b.missing[host]
	if !asked {
		since = now
		b.missing[host] = since
	}
	return since, true
}

// forget drops the time of a host that nothing names any more.
func (b *nodeBook) forget(host string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.missing, host)
}

// missingHosts are the hosts that were asked for and that no node is called.
func (b *nodeBook) missingHosts() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.missing))
}

// called returns the names of the nodes that answer to host.
func (b *nodeBook) called(host string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.hosts[host]))
}

// publishing returns the names of the nodes that publish pools.
func (b *nodeBook) publishing() map[string]struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	names := map[string]struct{}{}
	for name, entry := range b.nodes {
		if entry.published {
			names[name] = struct{}{}
		}
	}
	return names
}

// publishedPools are the names of all pools, sorted, how many nodes publish
// any, and how many say something that cannot be read.
func (b *nodeBook) publishedPools() (names []string, nodes, unreadable int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, entry := range b.nodes {
		if entry.published {
			nodes++
		}
		if entry.unreadable {
			unreadable++
		}
	}
	return slices.Sorted(maps.Keys(b.pools)), nodes, unreadable
}
