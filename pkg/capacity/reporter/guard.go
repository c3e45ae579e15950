package reporter

import "time"

// guard notices that somebody else changed the pools' annotation.
type guard struct {
	started bool
	uid     string
	// accepted is what stood there at the last look, attempted what was
	// written last, whether or not the answer came.
	accepted, attempted string
	heldUntil           time.Duration
}

// absent stands for an annotation that is not there; no value can be equal to it.
const absent = "\x00"

func (v nodeView) mark() string {
	if !v.there {
		return absent
	}
	return v.text
}

// look tells whether somebody else wrote since the last look. A Node that was
// made anew has lost what was published, and nobody wrote it.
func (g *guard) look(uid string, v nodeView) (foreign bool) {
	mark := v.mark()
	if !g.started {
		g.attempted = mark
	}
	foreign = g.started && uid == g.uid && mark != g.accepted && mark != g.attempted
	g.started, g.uid, g.accepted = true, uid, mark
	return foreign
}

func (g *guard) hold(now time.Duration, s Settings) { g.heldUntil = now + s.HoldDown }

func (g *guard) held(now time.Duration) bool { return now < g.heldUntil }
