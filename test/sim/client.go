package sim

import "time"

// limiter is the token bucket that client-go puts before an API client. Who has
// to wait is served in the order of asking.
//
// Source: k8s.io/client-go/util/flowcontrol/throttle.go, a golang.org/x/time/rate
// limiter whose Wait reserves a token at once; kubernetes/clientset.go,
// NewForConfigAndClient: one limiter for all API groups of a client.
type limiter struct {
	clock     *clock
	perSecond float64
	burst     float64
	tokens    float64
	at        time.Duration
}

func newLimiter(c *clock, perSecond, burst float64) *limiter {
	return &limiter{clock: c, perSecond: perSecond, burst: burst, tokens: burst}
}

func (l *limiter) fill() {
	l.tokens = min(l.burst, l.tokens+(l.clock.now-l.at).Seconds()*l.perSecond)
	l.at = l.clock.now
}

// reserve takes a token, and says how long to wait for it.
func (l *limiter) reserve() time.Duration {
	l.fill()
	l.tokens--
	if l.tokens >= 0 {
		return 0
	}
	return time.Duration(-l.tokens / l.perSecond * float64(time.Second))
}

// try takes a token if there is one.
func (l *limiter) try() bool {
	l.fill()
	if l.tokens < 1 {
		return false
	}
	l.tokens--
	return true
}

// client writes to the API server, in somebody's name.
type client struct {
	clock   *clock
	limiter *limiter
	latency func() time.Duration
	// writes counts the requests.
	writes *int
}

// write sends a request once the limiter lets it pass; do is its effect, at the
// moment when the answer is there.
func (c *client) write(do func()) {
	*c.writes++
	c.clock.after(c.limiter.reserve()+c.latency(), do)
}

// lane is a goroutine that writes one request after the other.
type lane struct {
	client *client
	// limit is how many requests may wait; more are dropped. 0: any number.
	limit int

	queue []func()
	busy  bool
}

func (l *lane) add(do func()) {
	if l.limit > 0 && len(l.queue) >= l.limit {
		return
	}
	l.queue = append(l.queue, do)
	l.next()
}

func (l *lane) next() {
	if l.busy || len(l.queue) == 0 {
		return
	}
	do := l.queue[0]
	l.queue = l.queue[1:]
	l.busy = true
	l.client.write(func() {
		do()
		l.busy = false
		l.next()
	})
}

// event writes an Event object, which nobody here reads.
func (l *lane) event() { l.add(func() {}) }

// maxQueuedEvents is how many events wait before more are dropped.
//
// Source: k8s.io/client-go/tools/record/event.go, maxQueuedEvents, DropIfChannelFull.
const maxQueuedEvents = 1000
