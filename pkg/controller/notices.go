package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Recorder makes events; client-go's record.EventRecorder is one. It must not
// block and be safe for concurrent use.
type Recorder interface {
	// Event tells of the object, which is not changed. kind is "Normal" or "Warning".
	Event(object runtime.Object, kind, reason, message string)
}

// notices passes events on, each reason once in a while for each object. It is
// safe for concurrent use.
type notices struct {
	recorder Recorder
	every    time.Duration

	mu     sync.Mutex
	sent   map[noticeKey]time.Time
	pruned time.Time
}

type noticeKey struct {
	uid    types.UID
	reason string
}

func newNotices(recorder Recorder, every time.Duration) *notices {
	return &notices{recorder: recorder, every: every, sent: map[noticeKey]time.Time{}}
}

// due tells whether the object's last event of that reason is long enough ago.
func (n *notices) due(uid types.UID, reason string, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	last, sent := n.sent[noticeKey{uid, reason}]
	return !sent || now.Sub(last) >= n.every
}

// say makes the event if it is due.
func (n *notices) say(object runtime.Object, uid types.UID, kind, reason, message string, now time.Time) {
	n.mu.Lock()
	key := noticeKey{uid, reason}
	last, sent := n.sent[key]
	due := !sent || now.Sub(last) >= n.every
	if due {
		n.sent[key] = now
	}
	n.prune(now)
	n.mu.Unlock()
	if due {
		n.recorder.Event(object, kind, reason, message)
	}
}

// prune drops what keeps nothing back any more, so that the map does not grow
// with objects that are gone. The lock is held.
func (n *notices) prune(now time.Time) {
	if now.Sub(n.pruned) < n.every {
		return
	}
	n.pruned = now
	for key, last := range n.sent {
		if now.Sub(last) >= n.every {
			delete(n.sent, key)
		}
	}
}
