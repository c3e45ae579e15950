package doctor

import (
	"fmt"
	"maps"
	"slices"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/inspect"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

func poolChecks() []Check {
	return []Check{
		{"pool-zero", Warning, "no volume can be placed in it", findZero},
		{"pool-overfull", Error, "volumes may not get what they were promised, and none can be expanded", findOverfull},
		{"pool-unpublished", Error, "the pools file gives the pool to the node, and the scheduler does not know of it", findMissingPools},
	}
}

// configured is the pool's entry for the node in the pools file.
func configured(s *inspect.Snapshot, node, pool string) (poolconfig.Pool, bool) {
	for _, p := range s.Install.PoolsFile.ForNode(node) {
		if p.Name == pool {
			return p, true
		}
	}
	return poolconfig.Pool{}, false
}

// lookAt shows what LVM says of the pool.
func lookAt(s *inspect.Snapshot, node, pool string) string {
	vg := ""
	if p, ok := configured(s, node, pool); ok {
		vg = " " + p.VolumeGroup
	}
	return onNode(s, node, "lvm lvs -a -o +lv_tags,devices"+vg)
}

func findZero(s *inspect.Snapshot) (found []Problem) {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		for _, pool := range slices.Sorted(maps.Keys(n.Pools)) {
			if n.Pools[pool] > 0 || saysUnreadable(s, n, pool) {
				continue
			}
			found = append(found, Problem{
				Object: nodeObject(n.Name), Pool: pool, Wrong: "it is published as 0: it cannot be read, or others have taken all of it",
				Command: lookAt(s, n.Name, pool),
			})
		}
	}
	return found
}

func findOverfull(s *inspect.Snapshot) (found []Problem) {
	usage := s.Usage()
	for i := range s.Nodes {
		n := &s.Nodes[i]
		for _, pool := range slices.Sorted(maps.Keys(n.Pools)) {
			used, allocatable := usage.Of(n.Name, pool).Bytes, n.Pools[pool]
			if allocatable == 0 || used <= allocatable {
				continue // of 0 there is another finding
			}
			found = append(found, Problem{
				Object: nodeObject(n.Name), Pool: pool,
				Wrong:   fmt.Sprintf("its volumes take %s, and %s are allocatable", capacity.FormatBytes(used), capacity.FormatBytes(allocatable)),
				Command: lookAt(s, n.Name, pool),
			})
		}
	}
	return found
}

func findMissingPools(s *inspect.Snapshot) (found []Problem) {
	if s.Install.PoolsFileErr != nil {
		return nil
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if !readable(n) || n.Paused || n.Unselected || !driverRuns(s, n) || s.TakenAt.Sub(readySince(s, n)) < settleTime {
			continue
		}
		for _, pool := range s.Install.PoolsFile.ForNode(n.Name) {
			if _, published := n.Pools[pool.Name]; !published {
				found = append(found, Problem{
					Object: nodeObject(n.Name), Pool: pool.Name, Wrong: "it is in the pools file, and the node does not publish it",
					Command: restartDriver(s, n.Name), Repairs: true,
				})
			}
		}
	}
	return found
}
