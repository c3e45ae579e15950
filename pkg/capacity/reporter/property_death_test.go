package reporter

import (
	"slices"
	"time"
)

// death says where in the middle of its next write the process dies. It is started
// again at once.
type death int

const (
	deathIsFar death = iota
	// The request was not sent.
	deathBefore
	// It was sent and done, and nobody heard the answer.
	deathAfter
	// It was sent, and is done when the next process has begun already.
	deathThenLate
	// deathIsDone: whatever else the process does has no effect.
	deathIsDone
)

// lateMost is how long a request may be under way after its sender died.
const lateMost = 20 * time.Second

// dies tells whether a write gets no answer because the process is dead by then.
// It runs inside the API server.
func (w *world) dies(kind Kind, patch []byte) bool {
	if kind != KindNode && w.death != deathIsDone {
		return false
	}
	switch w.death {
	case deathIsFar:
		return false
	case deathAfter:
		// A conflict is an answer like any other.
		_, _ = w.server.patch(kind, patch)
	case deathThenLate:
		w.late, w.lateDue = slices.Clone(patch), w.now+time.Duration(w.random.Int64N(int64(lateMost)))
	case deathBefore, deathIsDone:
	}
	w.death = deathIsDone
	return true
}

// landLate is the write of a process that died: done if nobody wrote meanwhile. What
// it says may be old, and the reporter hears of it like of anybody's.
func (w *world) landLate() {
	patch, wrote := w.late, w.server.wrote
	w.late = nil
	w.server.mu.Lock()
	w.server.wrote = nil // it was decided on what was known then
	_, err := w.server.patch(KindNode, patch)
	w.server.wrote = wrote
	w.server.mu.Unlock()
	if err == nil {
		w.seenLater()
	}
}
