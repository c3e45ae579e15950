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
	tell func(Notice)
	// active are the states that hold and that were told.
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
	if last, before := n.told[key]; before && now-last < quiet {
		return
	}
	n.active[key], n.told[key] = true, now
	n.tell(notice)
}

// during is set for a state whose end is told as well, if its beginning was.
func (n *notices) during(now time.Duration, key string, holds bool, begin, end Notice) {
	if !holds && n.active[begin.Reason+"/"+key] {
		n.tell(end)
	}
	n.set(now, key, holds, begin)
}
