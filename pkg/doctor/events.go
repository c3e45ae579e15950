package doctor

import (
	"regexp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/csi-local/csi-local/pkg/inspect"
)

// Reasons of events.
const (
	reasonUnreadable = "PoolUnreadable"
	reasonOrphan     = "OrphanQuarantined"
)

// Nodes tell in events what stands nowhere else in the API. An event is kept for an
// hour, and says when something began, so these checks find what is new; metrics have
// the rest.
func eventChecks() []Check {
	return []Check{
		{"event-orphan", Warning, "its bytes are taken, and nothing in the cluster counts it", findOrphans},
		{"event-orphans-held", Warning, "PersistentVolumes are missing, and nothing is decided about their volumes: was etcd restored, or the Node made anew?", toldBy("OrphansHeld", nil)},
		{"event-watermark", Warning, "the thin pool takes no new volumes; when it is full, writes fail for all its volumes", toldBy("PoolAtWatermark", extend)},
		{"event-unreadable", Warning, "the pool is published as 0 after a while, and no volume is placed in it", toldBy(reasonUnreadable, look)},
		{"event-forbidden", Error, "what the node publishes stays as it is, whatever happens to its disks", toldBy("PublishForbidden", reinstalled)},
	}
}

// helps makes the command for an event; repairs tells whether that mends it.
type helps func(s *inspect.Snapshot, e *v1.Event) (command string, repairs bool)

// toldBy finds the last event of that reason about each node and message.
func toldBy(reason string, help helps) func(s *inspect.Snapshot) []Problem {
	return func(s *inspect.Snapshot) (found []Problem) {
		last := map[[2]string]int{}
		hosts := s.Hosts()
		for i := range s.Events {
			e := &s.Events[i]
			n := hosts[e.InvolvedObject.Name]
			if e.Reason != reason || n == nil || recovered(s, n, e) {
				continue
			}
			p := Problem{
				Object: nodeObject(e.InvolvedObject.Name), Pool: poolIn(e.Message),
				Wrong:   "it said " + duration.HumanDuration(s.TakenAt.Sub(inspect.EventTime(e))) + " ago: " + oneLine(errorText(e.Message)),
				Command: describe("node", "", e.InvolvedObject.Name),
			}
			if help != nil {
				p.Command, p.Repairs = help(s, e)
			}
			key := [2]string{e.InvolvedObject.Name, e.Message}
			if at, told := last[key]; told {
				found[at] = p
				continue
			}
			last[key] = len(found)
			found = append(found, p)
		}
		return found
	}
}

// recovered tells that the node publishes the pool again: it would be at 0 by now.
func recovered(s *inspect.Snapshot, n *inspect.Node, e *v1.Event) bool {
	return e.Reason == reasonUnreadable && n.Pools[poolIn(e.Message)] > 0 && s.TakenAt.Sub(inspect.EventTime(e)) > patience
}

// saidUnreadable tells whether the node has said so of the pool.
func saidUnreadable(s *inspect.Snapshot, node, pool string) bool {
	return slices.ContainsFunc(s.Events, func(e v1.Event) bool {
		return e.Reason == reasonUnreadable && e.InvolvedObject.Name == node && poolIn(e.Message) == pool
	})
}

// poolIn finds the pool that the message is about.
func poolIn(message string) string {
	match := regexp.MustCompile(`[Pp]ool ([^ ]+) `).FindStringSubmatch(message)
	if match == nil {
		return ""
	}
	return match[1]
}

func look(s *inspect.Snapshot, e *v1.Event) (string, bool) {
	return lookAt(s, e.InvolvedObject.Name, poolIn(e.Message)), false
}

// extend gives the thin pool a tenth of its volume group's free extents more.
func extend(s *inspect.Snapshot, e *v1.Event) (string, bool) {
	node := e.InvolvedObject.Name
	p, ok := configured(s, node, poolIn(e.Message))
	if !ok || p.ThinPool == "" {
		return look(s, e)
	}
	return onNode(s, node, "lvm lvextend -l +10%FREE "+p.VolumeGroup+"/"+p.ThinPool), s.Install.PodOn(node) != nil
}

func reinstalled(s *inspect.Snapshot, _ *v1.Event) (string, bool) { return reinstall(s), true }

// orphanOf finds the volume that an orphan's event is about.
func orphanOf(e *v1.Event) string {
	match := regexp.MustCompile(`^Volume ([^ ]+) `).FindStringSubmatch(e.Message)
	if match == nil {
		return ""
	}
	return match[1]
}

// findOrphans finds those of which the last event does not say that they are none any more.
func findOrphans(s *inspect.Snapshot) (found []Problem) {
	last := map[[2]string]*v1.Event{}
	for i := range s.Events { // in the order of time
		e := &s.Events[i]
		switch e.Reason {
		case reasonOrphan, "OrphanReturned", "OrphanDeleted":
			key := [2]string{e.InvolvedObject.Name, orphanOf(e)}
			// Times of events are whole seconds; what ends it comes after what begins it.
			if before := last[key]; before == nil || e.Reason != reasonOrphan || inspect.EventTime(e).After(inspect.EventTime(before)) {
				last[key] = e
			}
		}
	}
	hosts := s.Hosts()
	for key, e := range last {
		if e.Reason != reasonOrphan || hosts[key[0]] == nil || key[1] == "" {
			continue
		}
		found = append(found, Problem{
			Object: nodeObject(key[0]), Pool: poolIn(e.Message), Wrong: oneLine(errorText(e.Message)),
			Command: onNode(s, key[0], "csi-local orphans list"),
		})
	}
	return found
}
