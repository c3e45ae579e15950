package doctor

import (
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/csi-local/csi-local/pkg/inspect"
)

// Reasons of events.
const (
	reasonUnreadable = "PoolUnreadable"
	reasonForbidden  = "PublishForbidden"
	reasonWatermark  = "PoolAtWatermark"
	reasonOrphan     = "OrphanQuarantined"
)

// endOf is the reason of the event that takes back one of that reason, "" if there is none.
func endOf(reason string) string {
	switch reason {
	case reasonUnreadable:
		return "PoolReadable"
	case reasonForbidden:
		return "PublishAllowed"
	case reasonWatermark:
		return "PoolBelowWatermark"
	default:
		return ""
	}
}

// Nodes tell in events what stands nowhere else in the API. An event is kept for an
// hour, and says when something began, so these checks find what is new; metrics have
// the rest.
func eventChecks() []Check {
	return []Check{
		{"event-orphan", Warning, "its bytes are taken, and nothing in the cluster counts it", findOrphans},
		{"event-orphans-held", Warning, "PersistentVolumes are missing, and nothing is decided about their volumes: was etcd restored, or the Node made anew?", toldBy("OrphansHeld", nil)},
		{"event-watermark", Warning, "the thin pool takes no new volumes; when it is full, writes fail for all its volumes", toldBy(reasonWatermark, extend)},
		{"event-unreadable", Warning, "the pool is published as 0 after a while, and no volume is placed in it", toldBy(reasonUnreadable, look)},
		{"event-forbidden", Error, "what the node publishes stays as it is, whatever happens to its disks", toldBy(reasonForbidden, reinstalled)},
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
			if e.Reason != reason || n == nil || over(s, n, e) {
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

// over tells that what the event says is no more so.
func over(s *inspect.Snapshot, n *inspect.Node, e *v1.Event) bool {
	if endOf(e.Reason) == "" {
		return false
	}
	pool, at := poolIn(e.Message), inspect.EventTime(e)
	if _, has := configured(s, n.Name, pool); pool != "" && !has && s.Install.PoolsFileErr == nil {
		return true
	}
	if takenBack(s, e) || saidByAnother(s, n, at) {
		return true
	}
	// Both times are of the node's clock.
	published := n.HasReport && n.ReportErr == nil && n.Report.Changed.After(at)
	switch e.Reason {
	case reasonUnreadable:
		return n.Pools[pool] > 0 && (published || s.TakenAt.Sub(at) > patience) // it would be at 0 by then
	case reasonForbidden:
		return published && strings.HasPrefix(subject(e.Message), "Node ")
	default:
		return false
	}
}

// takenBack tells whether the node said later that it is over. Times of events are whole
// seconds; the end comes after the beginning.
func takenBack(s *inspect.Snapshot, e *v1.Event) bool {
	return slices.ContainsFunc(s.Events, func(end v1.Event) bool {
		return end.Reason == endOf(e.Reason) && end.InvolvedObject.Name == e.InvolvedObject.Name &&
			subject(end.Message) == subject(e.Message) && !inspect.EventTime(&end).Before(inspect.EventTime(e))
	})
}

// saidByAnother tells whether another process of the driver runs by now, for so long that
// it would have said it again.
func saidByAnother(s *inspect.Snapshot, n *inspect.Node, at time.Time) bool {
	p := s.Install.PodOn(n.Name)
	return p != nil && slices.ContainsFunc(p.Status.ContainerStatuses, func(c v1.ContainerStatus) bool {
		running := c.State.Running
		return c.Name == driverContainer && running != nil && at.Before(running.StartedAt.Time) && s.TakenAt.Sub(running.StartedAt.Time) > settleTime
	})
}

// subject is what the message is about: a pool, or an object and what is done with it.
func subject(message string) string {
	match := regexp.MustCompile(`this node's (\w+) (?:to )?be (\w+)`).FindStringSubmatch(message)
	if match == nil {
		return poolIn(message)
	}
	return match[1] + " " + match[2]
}

// saysUnreadable tells whether there is another finding that says so of the pool.
func saysUnreadable(s *inspect.Snapshot, n *inspect.Node, pool string) bool {
	return slices.ContainsFunc(s.Events, func(e v1.Event) bool {
		return e.Reason == reasonUnreadable && e.InvolvedObject.Name == n.Name && poolIn(e.Message) == pool && !over(s, n, &e)
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
