package schedplugin

import "time"

// Stats are the ledger's sums over all nodes.
type Stats struct {
	// Pools by name; the empty name stands for volumes whose pool is not known.
	Pools map[string]PoolStats
	// Entries are the volumes by state: idle, reserved, selected, provisioned, inline.
	Entries map[string]int
	// Settling are the reservations of which the API has to be asked.
	Settling int
	// OldestReservation is the age of the oldest reservation, 0 if there is none.
	OldestReservation time.Duration
	// UnreadableNodes have an annotation that is wrong, wholly or in part.
	UnreadableNodes int
}

// PoolStats are a pool's sums over all nodes.
type PoolStats struct {
	// AllocatableBytes is what the nodes published.
	AllocatableBytes int64
	// UsedBytes is charged for what is in the API, ReservedBytes for what
	// scheduling cycles have chosen beyond that.
	UsedBytes, ReservedBytes int64
}

// Stats reads off the sums. Its cost grows with the number of pools and of
// reservations, not of volumes.
func (l *Ledger) Stats() Stats {
	l.mu.RLock()
	defer l.mu.RUnlock()
	s := Stats{Pools: map[string]PoolStats{}, Entries: map[string]int{}, UnreadableNodes: l.unreadable}
	for pool, t := range l.totals {
		s.Pools[pool] = PoolStats{AllocatableBytes: t.allocatable, UsedBytes: t.used, ReservedBytes: t.reserved}
	}
	for state, n := range l.states {
		s.Entries[entryState(state).String()] = n
	}
	var oldest time.Time
	for _, h := range l.holders {
		for _, k := range h.keys {
			for i := range l.entries[k].holds {
				held := &l.entries[k].holds[i]
				if held.settling > 0 {
					s.Settling++
				}
				if !held.free && (oldest.IsZero() || held.since.Before(oldest)) {
					oldest = held.since
				}
			}
		}
	}
	if !oldest.IsZero() {
		s.OldestReservation = max(l.now().Sub(oldest), 0)
	}
	return s
}

// PoolFigures are what the books say of one pool on one node, in bytes.
type PoolFigures struct {
	// Known: the node has published the pool.
	Known bool
	// AllocatableBytes is what it published, LimitBytes that times the ratio.
	AllocatableBytes, LimitBytes int64
	// UsedBytes is all that is charged, reservations included.
	UsedBytes int64
}

// Pool reads off the books of one pool on one node.
func (l *Ledger) Pool(node, pool string) PoolFigures {
	l.mu.RLock()
	defer l.mu.RUnlock()
	books, ok := l.nodes[node]
	if !ok {
		return PoolFigures{}
	}
	f := PoolFigures{UsedBytes: books.anyPool}
	if book := books.pool(pool); book != nil {
		f.Known, f.AllocatableBytes, f.LimitBytes = book.known, book.allocatable, book.limit
		f.UsedBytes += book.used
	}
	return f
}
