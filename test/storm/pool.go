package storm

import (
	"context"
	"sync"
	"time"
)

const extentBytes = 4 << 20

// Pool is a node's pool with the driver in front of it: it makes one volume at a
// time, accounts for them in extents as LVM does, and says ResourceExhausted where
// there is no room. It may be used concurrently.
type Pool struct {
	turn chan struct{} // holds one token: CreateVolume runs one at a time

	mu          sync.Mutex
	freeExtents int64
	volumes     map[string]int64 // extents by name
	refused     int
}

func newPool(capacityBytes int64) *Pool {
	p := &Pool{turn: make(chan struct{}, 1), freeExtents: capacityBytes / extentBytes, volumes: map[string]int64{}}
	p.turn <- struct{}{}
	return p
}

// create makes a volume, which takes so long, and tells whether it is there now.
// Asked again for a volume that is there, it does nothing, as CSI wants it. An
// error is one of ctx.
func (p *Pool) create(ctx context.Context, name string, bytes int64, takes time.Duration) (bool, error) {
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-p.turn:
	}
	defer func() { p.turn <- struct{}{} }()
	extents := (bytes + extentBytes - 1) / extentBytes
	if there, room := p.look(name, extents); there || !room {
		return there, nil
	}
	timer := time.NewTimer(takes)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-timer.C:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.volumes[name] = extents
	p.freeExtents -= extents
	return true, nil
}

// look counts a refusal if the volume is not there and there is no room for it.
func (p *Pool) look(name string, extents int64) (there, room bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, there = p.volumes[name]
	room = extents <= p.freeExtents
	if !there && !room {
		p.refused++
	}
	return there, room
}

// freeBytes is what GetCapacity says.
func (p *Pool) freeBytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.freeExtents * extentBytes
}

// counts returns how many volumes there are, and how often there was no room.
func (p *Pool) counts() (volumes, refused int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.volumes), p.refused
}

func (p *Pool) has(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, there := p.volumes[name]
	return there
}
