package sim

import (
	"container/heap"
	"time"
)

// clock is virtual time. What is due happens one at a time, in order; what is
// due at the same moment, in the order in which it was asked for. So a run
// follows from its input alone.
type clock struct {
	// now is the time since the trace began.
	now  time.Duration
	last uint64
	due  dueHeap
}

type due struct {
	when  time.Duration
	order uint64
	do    func()
}

func (c *clock) at(when time.Duration, do func()) {
	c.last++
	heap.Push(&c.due, due{max(when, c.now), c.last, do})
}

func (c *clock) after(wait time.Duration, do func()) { c.at(c.now+wait, do) }

// every calls do after first, and then once each period, for ever.
func (c *clock) every(first, period time.Duration, do func()) {
	c.after(first, func() {
		do()
		c.every(period, period, do)
	})
}

// run lets things happen until none is due up to the given time, or done says
// that it is enough.
func (c *clock) run(until time.Duration, done func() bool) {
	for len(c.due) > 0 && c.due[0].when <= until && !done() {
		d := heap.Pop(&c.due).(due)
		c.now = d.when
		d.do()
	}
}

type dueHeap []due

func (h dueHeap) Len() int      { return len(h) }
func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h dueHeap) Less(i, j int) bool {
	return h[i].when < h[j].when || h[i].when == h[j].when && h[i].order < h[j].order
}
func (h *dueHeap) Push(x any) { *h = append(*h, x.(due)) }
func (h *dueHeap) Pop() any {
	old := *h
	d := old[len(old)-1]
	old[len(old)-1] = due{}
	*h = old[:len(old)-1]
	return d
}

// stream delivers the changes of one kind of object to one watcher: in order,
// each after a delay of its own.
type stream struct {
	clock *clock
	delay func() time.Duration
	last  time.Duration
}

func (s *stream) send(do func()) {
	s.last = max(s.last, s.clock.now+s.delay())
	s.clock.at(s.last, do)
}

// workQueue is client-go's work queue with one worker. An item that is added
// while it waits is worked on once; one that is added while it is worked on is
// worked on again.
//
// Source: k8s.io/client-go/util/workqueue/queue.go, Add, Get and Done.
type workQueue[T comparable] struct {
	// work begins with an item, and calls done when it has ended.
	work func(item T, done func())

	waiting map[T]bool
	order   []T
	current map[T]bool
}

func newWorkQueue[T comparable](work func(T, func())) *workQueue[T] {
	return &workQueue[T]{work: work, waiting: map[T]bool{}, current: map[T]bool{}}
}

func (q *workQueue[T]) add(item T) {
	if q.waiting[item] {
		return
	}
	q.waiting[item] = true
	if q.current[item] {
		return // done puts it back
	}
	q.order = append(q.order, item)
	q.next()
}

func (q *workQueue[T]) next() {
	for len(q.current) == 0 && len(q.order) > 0 {
		item := q.order[0]
		q.order = q.order[1:]
		delete(q.waiting, item)
		q.current[item] = true
		q.work(item, func() {
			delete(q.current, item)
			if q.waiting[item] {
				q.order = append(q.order, item)
			}
			q.next()
		})
	}
}
