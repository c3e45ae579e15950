package reporter

import (
	"time"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// trust is how far the last figure of one pool can be believed. The zero value
// with born set is a pool that was never read.
type trust struct {
	born      time.Duration // when the pool was first heard of
	known     bool          // value and confirmed mean something
	value     int64         // the last figure that LVM gave, bytes
	confirmed time.Duration // when LVM gave it
	failing   bool
	since     time.Duration // when reading began to fail
}

// observe takes a reading in.
func (t *trust) observe(now time.Duration, r capacity.PoolReading) {
	if r.Err != nil {
		if !t.failing {
			t.failing, t.since = true, now
		}
		return
	}
	t.known, t.failing = true, false
	t.value, t.confirmed = r.AllocatableBytes, now-r.Age
}

// verdict is what may be published of a pool.
type verdict int

const (
	// nothing is known yet: what is published stays, for a while.
	inherited verdict = iota
	// expired: too long since LVM confirmed anything; only 0 may be published.
	expired
	// doubtful: the last figure still counts as an upper bound.
	doubtful
	// sound: the figure may be published, higher than before too.
	sound
)

// judge says what counts now. expires is when a verdict that is no longer sound
// turns into expired, if nothing happens until then.
func (t *trust) judge(now time.Duration, s Settings) (v verdict, expires time.Duration) {
	if !t.known {
		expires = t.born + s.ErrorValidity
		if now >= expires {
			return expired, expires
		}
		return inherited, expires
	}
	expires = t.confirmed + s.Validity
	if t.failing {
		expires = min(expires, t.since+s.ErrorValidity)
	}
	switch {
	case now >= expires:
		return expired, expires
	case t.failing || now-t.confirmed > s.Validity/2:
		return doubtful, expires
	default:
		return sound, expires
	}
}
