package inspect

import (
	"cmp"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// Usage is what the scheduler counts as used, without the reservations that only its
// own memory holds (pkg/schedplugin has the rule, and a test compares the two).
type Usage struct {
	// pools by node and pool; the pool is "" for volumes that may be in any.
	pools map[PoolKey]Use
	nodes map[string]int
}

// PoolKey is a pool on a node.
type PoolKey struct{ Node, Pool string }

// Use is what volumes take.
type Use struct {
	// Bytes of the pool, footprints and not sizes.
	Bytes int64
	// Volumes is their number.
	Volumes int
}

// Of is what is used of a pool on a node. Volumes whose pool is not known count in
// every pool of their node.
func (u Usage) Of(node, pool string) Use {
	known, unknown := u.pools[PoolKey{node, pool}], u.pools[PoolKey{node, ""}]
	if pool == "" {
		return known
	}
	return Use{Bytes: known.Bytes + unknown.Bytes, Volumes: known.Volumes + unknown.Volumes}
}

// VolumesOn is the number of volumes on a node, in all pools.
func (u Usage) VolumesOn(node string) int { return u.nodes[node] }

// Pools are all pools on nodes that volumes are in, "" where that is not known.
func (u Usage) Pools() []PoolKey {
	keys := make([]PoolKey, 0, len(u.pools))
	for key := range u.pools {
		keys = append(keys, key)
	}
	return keys
}

// Defaults where a node does not say how its pools are made.
const (
	defaultExtentSizeBytes = 4 << 20
	defaultFilesystem      = capacity.FilesystemExt4
)

// counting is a Usage in the making.
type counting struct {
	Usage
	made map[string]map[string]capacity.PoolFacts
}

// want is one volume that is counted.
type want struct {
	pool       string
	shape      capacity.Shape
	filesystem capacity.Filesystem
	// byPool: the file system is the pool's default.
	byPool bool
	bytes  int64
}

// Usage sums up what takes bytes: PersistentVolumes in any phase, claims for which a
// node was chosen, and inline volumes of pods.
func (s *Snapshot) Usage() Usage {
	c := counting{Usage: Usage{pools: map[PoolKey]Use{}, nodes: map[string]int{}}, made: map[string]map[string]capacity.PoolFacts{}}
	for i := range s.Nodes {
		c.made[s.Nodes[i].Name] = s.Nodes[i].Made
	}
	hosts, byClaim, claims := s.Hosts(), s.VolumesByClaim(), map[string]*v1.PersistentVolumeClaim{}
	for i := range s.Claims {
		claims[string(s.Claims[i].UID)] = &s.Claims[i]
	}
	for i := range s.Volumes {
		v := &s.Volumes[i]
		node, host := s.Host(hosts, v)
		if node != nil {
			host = node.Name
		}
		c.add(host, s.volumeWant(v, claims))
	}
	for i := range s.Claims {
		claim := &s.Claims[i]
		node := claim.Annotations[storagehelpers.AnnSelectedNode]
		if node == "" || claim.Status.Phase == v1.ClaimLost || made(claim, byClaim[string(claim.UID)]) {
			continue
		}
		c.add(node, s.claimWant(claim))
	}
	for i := range s.Pods {
		for _, v := range s.Inline(&s.Pods[i]) {
			if p, err := capacity.ParseInlineParameters(v.CSI.VolumeAttributes, -1); err == nil {
				c.add(s.Pods[i].Spec.NodeName, newWant(p.ClassParameters, p.SizeBytes))
			}
		}
	}
	return c.Usage
}

func (c *counting) add(node string, w want) {
	if node == "" {
		return
	}
	use := c.pools[PoolKey{node, w.pool}]
	use.Bytes, use.Volumes = use.Bytes+w.footprint(c.made[node][w.pool]), use.Volumes+1
	c.pools[PoolKey{node, w.pool}] = use
	c.nodes[node]++
}

// made tells that the volume which the claim's selected node stands for is there.
func made(claim *v1.PersistentVolumeClaim, volumes []*v1.PersistentVolume) bool {
	if len(volumes) > 0 && claim.Spec.VolumeName != "" {
		return true
	}
	for _, v := range volumes {
		if strings.HasSuffix(v.Name, string(claim.UID)) {
			return true
		}
	}
	return false
}

func newWant(p capacity.ClassParameters, bytes int64) want {
	return want{pool: p.Pool, shape: p.ShapeIn(capacity.PoolThick), filesystem: p.Filesystem, byPool: p.Filesystem == capacity.FilesystemNone, bytes: bytes}
}

// volumeWant goes by what the driver wrote into the volume when it made it.
func (s *Snapshot) volumeWant(v *v1.PersistentVolume, claims map[string]*v1.PersistentVolumeClaim) want {
	size, attributes := v.Spec.Capacity[v1.ResourceStorage], v.Spec.CSI.VolumeAttributes
	w := want{pool: attributes[capacity.ParamPool], bytes: max(size.Value(), 1)}
	known := map[string]string{}
	for _, key := range []string{capacity.ParamPool, capacity.ParamLayout, capacity.ParamStripes, capacity.ParamMirrors} {
		if value, ok := attributes[key]; ok {
			known[key] = value
		}
	}
	if p, err := capacity.ParseClassParameters(known); err == nil {
		w.shape = p.ShapeIn(capacity.PoolThick)
	}
	if class := s.Class(storagehelpers.GetPersistentVolumeClass(v)); w.pool == "" && class != nil {
		if p, err := capacity.ParseClassParameters(class.Parameters); err == nil {
			w.pool = p.Pool
		}
	}
	if ref := v.Spec.ClaimRef; ref != nil && ref.UID != "" {
		if claim := claims[string(ref.UID)]; claim != nil && claim.Spec.VolumeName == v.Name {
			w.bytes = max(w.bytes, RequestedBytes(claim))
		}
	}
	return w
}

func (s *Snapshot) claimWant(claim *v1.PersistentVolumeClaim) want {
	w := want{bytes: max(RequestedBytes(claim), 1)}
	if class := s.Class(storagehelpers.GetPersistentVolumeClaimClass(claim)); class != nil {
		if p, err := capacity.ParseClassParameters(class.Parameters); err == nil {
			w = newWant(p, w.bytes)
		}
	}
	if mode := claim.Spec.VolumeMode; mode != nil && *mode == v1.PersistentVolumeBlock {
		w.filesystem, w.byPool = capacity.FilesystemNone, false
	}
	return w
}

// RequestedBytes is the largest of what a claim asks for and what an expansion has
// been admitted for (KEP-1790).
func RequestedBytes(c *v1.PersistentVolumeClaim) int64 {
	requested, allocated := c.Spec.Resources.Requests[v1.ResourceStorage], c.Status.AllocatedResources[v1.ResourceStorage]
	return max(requested.Value(), allocated.Value(), 0)
}

// footprint is what the driver will take from such a pool for it.
func (w want) footprint(pool capacity.PoolFacts) int64 {
	extentSizeBytes, filesystem := cmp.Or(pool.ExtentSizeBytes, defaultExtentSizeBytes), w.filesystem
	if w.byPool {
		filesystem = cmp.Or(pool.Filesystem, defaultFilesystem)
	}
	size, err := capacity.VolumeSize(w.shape, filesystem, w.bytes, 0, extentSizeBytes)
	if err != nil {
		return w.bytes
	}
	bytes, err := capacity.Footprint(w.shape, size, extentSizeBytes)
	if err != nil {
		return w.bytes
	}
	return bytes
}
