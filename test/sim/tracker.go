package sim

// tracker is what differs between the variants: what the scheduler knows of the
// space on the nodes. It is asked and told in one goroutine.
type tracker interface {
	// begin is called when a scheduling cycle of the pod begins, before fits and
	// score.
	begin(p *pod) error
	// fits is Filter.
	fits(p *pod, node int) bool
	// score is Score: it adds to into, for each of the nodes, from 0 to 100.
	score(p *pod, nodes []int, into []int64)
	// reserve is Reserve; false: the node will not do after all.
	reserve(p *pod, node int) (bool, error)
	// unreserve is for a cycle that failed after it may have written to the API.
	unreserve(p *pod, node int) error
	// postBind is for a pod that was bound.
	postBind(p *pod) error
	// sawClaim and sawVolume: the scheduler's informers have a change.
	sawClaim(c *claim, before, now claimState) error
	sawVolume(c *claim, before, now volumeState) error

	// poolChanged: the driver has made or deleted a volume on the node; refused:
	// it had no room for one.
	poolChanged(node int)
	refused(node int)
}

// untracked is the variant without tracking: every node will do. The others
// build on it.
//
// Source: https://github.com/kubernetes/kubernetes/blob/v1.37.2/pkg/scheduler/framework/plugins/volumebinding/binder.go
// hasEnoughCapacity: without CSIDriver.spec.storageCapacity nothing is checked.
type untracked struct{}

var _ tracker = untracked{}

func (untracked) begin(*pod) error                                 { return nil }
func (untracked) fits(*pod, int) bool                              { return true }
func (untracked) score(*pod, []int, []int64)                       {}
func (untracked) reserve(*pod, int) (bool, error)                  { return true, nil }
func (untracked) unreserve(*pod, int) error                        { return nil }
func (untracked) postBind(*pod) error                              { return nil }
func (untracked) sawClaim(*claim, claimState, claimState) error    { return nil }
func (untracked) sawVolume(*claim, volumeState, volumeState) error { return nil }
func (untracked) poolChanged(int)                                  {}
func (untracked) refused(int)                                      {}
