package schedplugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"
)

// SignPod lets pods without claims and without inline volumes of the drivers be
// scheduled in batches, as far as this plugin is concerned. Others are not
// alike: what fits the first need not fit the second.
func (p *LocalCapacity) SignPod(_ context.Context, pod *v1.Pod) ([]framework.SignFragment, *framework.Status) {
	if p.relevant(pod) {
		return nil, framework.NewStatus(framework.Unschedulable, "pod may have local volumes")
	}
	return nil, nil
}
