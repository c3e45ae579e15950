package status

import (
	"github.com/csi-local/csi-local/pkg/doctor"
	"github.com/csi-local/csi-local/pkg/inspect"
)

// troubles are the findings that say something of a pool's figures, by where they are;
// the pool is "" for all pools of a node.
type troubles map[inspect.PoolKey]trouble

type trouble struct {
	state State
	text  string
}

// stateOf is what a check's finding makes of a pool's figures, "" if nothing.
func stateOf(check string) State {
	switch check {
	case "node-not-ready", "node-without-driver", "install-driver-pod", "published-paused", "published-by-newer":
		return Stale
	case "node-unregistered", "node-slots", "published-nothing", "published-unreadable", "published-by-others", "published-report",
		"pool-zero", "pool-overfull", "pool-unpublished", "event-watermark", "event-unreadable", "event-forbidden":
		return Broken
	default:
		return ""
	}
}

func newTroubles(findings []doctor.Finding) troubles {
	t := troubles{}
	for _, f := range findings {
		state, key := stateOf(f.Check), inspect.PoolKey{Node: f.Node, Pool: f.Pool}
		if state == "" || f.Node == "" || t[key].state == Broken {
			continue // the first one is the worst
		}
		t[key] = trouble{state: state, text: f.Wrong}
	}
	return t
}

// state is that of the pool itself, else that of its node.
func (t troubles) state(key inspect.PoolKey) (State, string) {
	for _, where := range []inspect.PoolKey{key, {Node: key.Node}} {
		if found, ok := t[where]; ok {
			return found.state, found.text
		}
	}
	return Fresh, ""
}
