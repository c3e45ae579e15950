package schedplugin

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
)

// Limits on the events that say why pods wait.
const (
	// eventInterval is the least time between two events of one pod.
	eventInterval = 30 * time.Second
	// eventBurst and eventsPerSecond bound those of all pods.
	eventBurst      = 50.0
	eventsPerSecond = 5.0

	eventReason = "InsufficientLocalCapacity"
	eventAction = "Scheduling"
)

// announce writes the figures into an event of the pod, if they differ from the
// last ones.
func (w *waiting) announce(recorder events.EventRecorder, pod *v1.Pod, c *cycle) {
	text := c.summary()
	if text == "" || !w.allow(pod, text) {
		return
	}
	recorder.Eventf(pod, nil, v1.EventTypeWarning, eventReason, eventAction, "%s", text)
}

func (w *waiting) allow(pod *v1.Pod, text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, ok := w.attempts[pod.UID]
	now := w.now()
	if !ok || a.told == text || a.told != "" && now.Sub(a.toldAt) < eventInterval {
		return false
	}
	w.budget = min(w.budget+now.Sub(w.budgetAt).Seconds()*eventsPerSecond, eventBurst)
	w.budgetAt = now
	if w.budget < 1 {
		return false
	}
	w.budget--
	a.told, a.toldAt = text, now
	return true
}

// summary names the node that came nearest, with its figures.
func (c *cycle) summary() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusals == 0 {
		return ""
	}
	if c.refusals == 1 {
		return fmt.Sprintf("node %s: %s", c.nearestNode, c.nearest)
	}
	return fmt.Sprintf("%d nodes have no room for the pod's local volumes; nearest is node %s: %s", c.refusals, c.nearestNode, c.nearest)
}
