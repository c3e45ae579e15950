package status

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/doctor"
	"github.com/csi-local/csi-local/pkg/inspect"
)

// State says how far a pool's figures on a node can be trusted.
type State string

const (
	// Fresh: the driver runs there and keeps them up to date.
	Fresh State = "fresh"
	// Stale: they are what the driver said last, and nobody keeps them up to date.
	Stale State = "stale"
	// Broken: something is wrong with them, or nothing is placed there.
	Broken State = "problem"
	// Lost: there is no such Node, but volumes on it.
	Lost State = "lost"
)

// Format is the version of the JSON form of a [Report]: fields may be added to it
// without a new one.
const Format = 1

// Report is what the pools of a cluster hold. All amounts are bytes.
type Report struct {
	Format int    `json:"format"`
	Driver string `json:"driver"`
	// TakenAt is the API server's clock.
	TakenAt time.Time `json:"takenAt"`
	// Requests to the API server that it took.
	Requests int `json:"requests"`
	// Findings of csi-local doctor.
	Findings int `json:"findings"`
	// Pools by name and type.
	Pools []Pool `json:"pools"`
	// PendingClaims by namespace and name.
	PendingClaims []Claim `json:"pendingClaims"`
}

// Pool is a pool on all nodes that have it.
type Pool struct {
	// Name is "" for volumes of which nothing says in which pool they are.
	Name string `json:"name"`
	// Type is thick or thin, or "" if the pools file does not tell.
	Type capacity.PoolType `json:"type"`
	// Sums of the nodes that there are.
	Sums
	// Nodes by name.
	Nodes []NodePool `json:"nodes"`
}

// Sums are a pool's figures.
type Sums struct {
	// AllocatableBytes is what volumes may occupy in total, as published.
	AllocatableBytes int64 `json:"allocatableBytes"`
	// UsedBytes is what the scheduler counts: volumes that exist and those on their way.
	UsedBytes int64 `json:"usedBytes"`
	// AvailableBytes is what is left, never below 0.
	AvailableBytes int64 `json:"availableBytes"`
	// Volumes is the number of those that are counted.
	Volumes int `json:"volumes"`
}

// NodePool is a pool on one node.
type NodePool struct {
	Node string `json:"node"`
	Sums
	// NodeVolumes is the number of volumes on the node, in all its pools.
	NodeVolumes int `json:"nodeVolumes"`
	// NodeSlots is how many it may have, as the CSINode says; -1 if that is not known.
	NodeSlots int64 `json:"nodeSlots"`
	// ChangedAt is when what the node publishes has changed last, by its own clock.
	ChangedAt *time.Time `json:"changedAt,omitempty"`
	State     State      `json:"state"`
	// Problem says what is wrong, unless it is fresh.
	Problem string `json:"problem,omitempty"`
}

// New makes the report. findings are those of the same snapshot.
func New(s *inspect.Snapshot, findings []doctor.Finding) Report {
	r := Report{
		Format: Format, Driver: s.Driver, TakenAt: s.TakenAt.UTC().Truncate(time.Second), Requests: s.Requests, Findings: len(findings),
		Pools: []Pool{}, PendingClaims: pendingClaims(s, findings),
	}
	usage, troubles, nodes := s.Usage(), newTroubles(findings), map[string]*inspect.Node{}
	for i := range s.Nodes {
		nodes[s.Nodes[i].Name] = &s.Nodes[i]
	}
	at := map[poolKind]int{}
	for _, key := range rows(s, usage) {
		kind := poolKind{name: key.Pool, kind: typeOf(s, key)}
		i, there := at[kind]
		if !there {
			i = len(r.Pools)
			at[kind] = i
			r.Pools = append(r.Pools, Pool{Name: kind.name, Type: kind.kind})
		}
		row := nodePool(nodes[key.Node], key, usage, troubles)
		if row.State != Lost { // its bytes are not the cluster's any more
			r.Pools[i].add(row.Sums)
		}
		r.Pools[i].Nodes = append(r.Pools[i].Nodes, row)
	}
	slices.SortFunc(r.Pools, func(a, b Pool) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Type, b.Type)) })
	return r
}

type poolKind struct {
	name string
	kind capacity.PoolType
}

func (p *Pool) add(s Sums) {
	p.AllocatableBytes += s.AllocatableBytes
	p.UsedBytes += s.UsedBytes
	p.AvailableBytes += s.AvailableBytes
	p.Volumes += s.Volumes
}

// rows are the pools that nodes publish, that the pools file gives to nodes where the
// driver is, and that volumes are in; by node and pool.
func rows(s *inspect.Snapshot, usage inspect.Usage) []inspect.PoolKey {
	keys := map[inspect.PoolKey]bool{}
	anyPool := map[string]bool{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		for _, pool := range slices.Concat(slices.Collect(maps.Keys(n.Pools)), slices.Collect(maps.Keys(n.BadPools))) {
			keys[inspect.PoolKey{Node: n.Name, Pool: pool}] = true
			anyPool[n.Name] = true
		}
		if !n.Registered && !n.HasPools && s.Install.PodOn(n.Name) == nil {
			continue
		}
		for _, pool := range s.Install.PoolsFile.ForNode(n.Name) {
			keys[inspect.PoolKey{Node: n.Name, Pool: pool.Name}] = true
			anyPool[n.Name] = true
		}
	}
	for _, key := range usage.Pools() {
		if key.Pool != "" || !anyPool[key.Node] { // where it may be in any, it counts in all
			keys[key] = true
		}
	}
	return slices.SortedFunc(maps.Keys(keys), func(a, b inspect.PoolKey) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Pool, b.Pool))
	})
}

func typeOf(s *inspect.Snapshot, key inspect.PoolKey) capacity.PoolType {
	for _, p := range s.Install.PoolsFile.ForNode(key.Node) {
		if p.Name == key.Pool {
			return p.Type
		}
	}
	return ""
}

// nodePool makes a row; n is nil if there is no such Node.
func nodePool(n *inspect.Node, key inspect.PoolKey, usage inspect.Usage, t troubles) NodePool {
	use := usage.Of(key.Node, key.Pool)
	row := NodePool{Node: key.Node, NodeVolumes: usage.VolumesOn(key.Node), NodeSlots: -1, State: Lost, Problem: "there is no such Node"}
	row.UsedBytes, row.Volumes = use.Bytes, use.Volumes
	if n == nil {
		return row
	}
	row.AllocatableBytes, row.NodeSlots = n.Pools[key.Pool], n.Slots
	row.AvailableBytes = max(row.AllocatableBytes-row.UsedBytes, 0)
	if n.HasReport && n.ReportErr == nil && !n.Report.Changed.IsZero() {
		row.ChangedAt = &n.Report.Changed
	}
	row.State, row.Problem = t.state(key)
	return row
}
