package controller

import "fmt"

// reasonBrake is the reason of events on objects for which nothing is done
// because too many nodes are missing at the same time.
const reasonBrake = "TooManyNodesMissing"

// losses says how many nodes that matter are missing.
type losses struct {
	// missing nodes hold volumes that somebody uses or waits for; known are
	// these and all nodes that hold volumes or publish pools.
	missing, known int
	// allowed may be missing while anything is done about them.
	allowed int
}

func (l losses) brake() bool { return l.missing > l.allowed }

func (l losses) String() string {
	return fmt.Sprintf("%d of %d nodes with volumes or pools are missing, and at most %d may be", l.missing, l.known, l.allowed)
}

// countLosses counts anew from the caches each time, because a figure that was
// right a moment ago is what a brake must not rely on. It costs one look-up for
// each node that has volumes.
func (c *Controller) countLosses() losses {
	present := c.nodes.publishing()
	l := losses{}
	for _, host := range c.volumes.ListIndexFuncValues(byHost) {
		names := c.nodes.called(host)
		for _, name := range names {
			present[name] = struct{}{}
		}
		if len(names) == 0 && c.hostInUse(host) {
			l.missing++
		}
	}
	l.known = len(present) + l.missing
	l.allowed = max(1, l.known*c.settings.MaxLostNodesPercent/100)
	return l
}

// hostInUse tells whether the host has a volume that somebody uses or waits for.
func (c *Controller) hostInUse(host string) bool {
	for _, v := range c.volumesOn(host) {
		if inUse(v) {
			return true
		}
	}
	return false
}
