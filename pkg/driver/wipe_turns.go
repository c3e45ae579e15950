package driver

import (
	"context"
	"fmt"
	"sync"
)

// defaultConcurrentWipes is how many wipes run at once in a volume group.
const defaultConcurrentWipes = 2

// wipeTurns lets few wipes run at once in each volume group, in the order in
// which they came. All of them together take no longer that way, and the pods
// keep a share of the disks. It keeps nothing: after a restart all wait anew.
type wipeTurns struct {
	limit int

	mu     sync.Mutex
	groups map[string]chan struct{} // by volume group; an element for each wipe that runs
}

func newWipeTurns(limit int) *wipeTurns {
	return &wipeTurns{limit: limit, groups: map[string]chan struct{}{}}
}

// take waits for a turn in a volume group and says so in the progress of the
// operation that ctx belongs to. The error is ctx's.
func (w *wipeTurns) take(ctx context.Context, group string) (release func(), err error) {
	running := w.of(group)
	select {
	case running <- struct{}{}:
		return func() { <-running }, nil
	default:
		reportProgress(ctx, fmt.Sprintf("waiting until fewer than %d volumes of volume group %s are being wiped", w.limit, group))
	}
	select {
	case running <- struct{}{}:
		return func() { <-running }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w *wipeTurns) of(group string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.groups[group] == nil {
		w.groups[group] = make(chan struct{}, w.limit)
	}
	return w.groups[group]
}
