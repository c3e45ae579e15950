package reporter

import "time"

// Notice is something that an operator should know.
type Notice struct {
	// Reason is one word in CamelCase, as events have it.
	Reason  string
	Message string
	Warning bool
}

// quiet is the least time between two equal notices.
const quiet = 5 * time.Minute

// notices tell a state when it begins, not as long as it lasts.
type notices struct {
	tell   func(Notice)
	active map[string]bool
	told   map[string]time.Duration
}

func newNotices(tell func(Notice)) *notices {
	return &notices{tell: tell, active: map[string]bool{}, told: map[string]time.Duration{}}
}

// set says whether a state holds; key tells it from others with the same reason.
func (n *notices) set(now time.Duration, key string, holds bool, notice Notice) {
	key = notice.Reason + "/" + key
	if !holds {
		delete(n.active, key)
		return
	}
	if n.active[key] {
		return
	}
	n.active[key] = true
	if last, before := n.told[key]; before && now-last < quiet {
		return
	}
	n.told[key] = now
	n.tell(notice)
}
