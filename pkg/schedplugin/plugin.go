package schedplugin

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"
)

// Name is the plugin's name in scheduler configurations.
const Name = "LocalCapacity"

// stateKey is where a scheduling cycle keeps the plugin's [cycleState].
const stateKey framework.StateKey = "PreFilter" + Name

// LocalCapacity is the plugin, one for each profile; what it knows is shared.
type LocalCapacity struct {
	shared *shared
	// drivers are those that the profile names.
	drivers []*driverBooks
	handle  framework.Handle
	// strategy and weights are the profile's own.
	strategy ScoringStrategyType
	weights  map[string]int64
}

var (
	_ framework.PreFilterPlugin     = (*LocalCapacity)(nil)
	_ framework.PreFilterExtensions = (*LocalCapacity)(nil)
	_ framework.FilterPlugin        = (*LocalCapacity)(nil)
	_ framework.PostFilterPlugin    = (*LocalCapacity)(nil)
	_ framework.PreScorePlugin      = (*LocalCapacity)(nil)
	_ framework.ScorePlugin         = (*LocalCapacity)(nil)
	_ framework.ScoreExtensions     = (*LocalCapacity)(nil)
	_ framework.ReservePlugin       = (*LocalCapacity)(nil)
	_ framework.PermitPlugin        = (*LocalCapacity)(nil)
	_ framework.PostBindPlugin      = (*LocalCapacity)(nil)
	_ framework.EnqueueExtensions   = (*LocalCapacity)(nil)
	_ framework.SignPlugin          = (*LocalCapacity)(nil)
)

// Name returns the plugin's name.
func (p *LocalCapacity) Name() string { return Name }

// relevant tells whether a pod can concern the plugin at all: it has inline
// volumes of one of the drivers, or claims, of whatever driver.
func (p *LocalCapacity) relevant(pod *v1.Pod) bool {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil || v.CSI != nil && p.keeps(v.CSI.Driver) {
			return true
		}
	}
	return false
}

func (p *LocalCapacity) keeps(driver string) bool {
	for _, b := range p.drivers {
		if b.ledger.driver == driver {
			return true
		}
	}
	return false
}
