package schedplugin

import (
	"context"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"
)

// scoreUnitBytes keeps weighted sums far from overflow.
const scoreUnitBytes = 1 << 20

// PreScore skips pods that want no volumes: no node is better for them.
func (p *LocalCapacity) PreScore(_ context.Context, state framework.CycleState, _ *v1.Pod, _ []framework.NodeInfo) *framework.Status {
	s := stateOf(state)
	if s != nil {
		for i := range s.drivers {
			if s.drivers[i].wants.Len() > 0 {
				return nil
			}
		}
	}
	return framework.NewStatus(framework.Skip)
}

// Score is what the wanted pools have left on the node once the pod is there, in
// MiB, each pool times its weight.
func (p *LocalCapacity) Score(_ context.Context, state framework.CycleState, _ *v1.Pod, nodeInfo framework.NodeInfo) (int64, *framework.Status) {
	s := stateOf(state)
	if s == nil {
		return 0, nil
	}
	var score int64
	for i := range s.drivers {
		d := &s.drivers[i]
		d.books.ledger.remaining(nodeInfo.Node().Name, d.wants.list, func(pool string, bytes int64) {
			weight, ok := p.weights[pool]
			if !ok {
				weight = 1
			}
			score = saturatingAdd(score, min(bytes/scoreUnitBytes, math.MaxInt64/maxPoolWeight)*weight)
		})
	}
	return score, nil
}

// ScoreExtensions returns the plugin itself: see NormalizeScore.
func (p *LocalCapacity) ScoreExtensions() framework.ScoreExtensions { return p }

// NormalizeScore brings the scores into the scheduler's range, the best first:
// the most left for Spread, the least left for Pack.
func (p *LocalCapacity) NormalizeScore(_ context.Context, _ framework.CycleState, _ *v1.Pod, scores framework.NodeScoreList) *framework.Status {
	normalize(p.strategy, scores)
	return nil
}

func normalize(strategy ScoringStrategyType, scores framework.NodeScoreList) {
	var most int64
	for i := range scores {
		most = max(most, scores[i].Score)
	}
	for i := range scores {
		share := framework.MaxScore
		if most > 0 {
			share = int64(float64(scores[i].Score) / float64(most) * float64(framework.MaxScore))
		}
		if strategy == Pack && most > 0 {
			share = framework.MaxScore - share
		}
		scores[i].Score = share
	}
}
