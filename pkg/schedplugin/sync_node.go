package schedplugin

import (
	"errors"
	"maps"
	"slices"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// SyncNode looks at a Node and its CSINode. Volumes stay charged to a node that
// is gone, and to the one that comes back under its name.
func (l *Ledger) SyncNode(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	node, err := l.caches.Nodes.Get(name)
	gone, err := absent(err)
	if err != nil {
		return err
	}
	csiNode, err := l.caches.CSINodes.Get(name)
	csiGone, err := absent(err)
	if err != nil {
		return err
	}
	books := l.booksOf(name)
	before := books.fact
	var fact nodeFact
	if !gone {
		fact = newNodeFact(l.driver, node, before)
	}
	books.fact, books.present, books.slots.attachable = fact, !gone || !csiGone, attachable{}
	if !csiGone {
		books.slots.attachable = newAttachable(l.driver, csiNode)
	}
	l.unreadable += unreadable(fact) - unreadable(before)
	l.publish(books)
	var problems []error
	if !maps.Equal(before.made, fact.made) {
		problems = append(problems, l.reviewAll(books.volumes))
	}
	if before.hostname != fact.hostname {
		problems = append(problems, l.moveHostname(name, before.hostname, fact.hostname))
	}
	l.dropBooksIfEmpty(name)
	return errors.Join(problems...)
}

// unreadable is 1 for a node whose annotation is wrong, wholly or in part.
func unreadable(f nodeFact) int {
	if f.err != nil || len(f.bad) > 0 {
		return 1
	}
	return 0
}

// publish puts the node's figures into the books.
func (l *Ledger) publish(books *nodeBooks) {
	for i := range books.pools {
		book := &books.pools[i]
		if book.known {
			l.countKind(book.made, -1)
		}
		book.made = books.fact.made[book.name]
		if _, still := books.fact.allocatable[book.name]; still || !book.known {
			continue
		}
		l.addTotals(book.name, func(t *poolTotals) {
			t.nodes--
			t.allocatable -= book.allocatable
		})
		book.known, book.allocatable, book.limit = false, 0, 0
	}
	books.pools = slices.DeleteFunc(books.pools, func(p poolBook) bool {
		_, still := books.fact.allocatable[p.name]
		return !still && p.used == 0
	})
	for pool, allocatable := range books.fact.allocatable {
		before := books.pool(pool)
		name := l.addTotals(pool, func(t *poolTotals) {
			if before == nil || !before.known {
				t.nodes++
			} else {
				t.allocatable -= before.allocatable
			}
			t.allocatable = saturatingAdd(t.allocatable, allocatable)
		})
		book := books.madePool(name)
		l.countKind(book.made, 1)
		book.known, book.allocatable = true, allocatable
		book.limit = capacity.ScaleBytes(allocatable, l.ratio(pool))
	}
}

func (l *Ledger) countKind(made capacity.PoolFacts, n int) {
	l.kinds[made] += n
	if l.kinds[made] == 0 {
		delete(l.kinds, made)
	}
}

// moveHostname keeps the way from hostname labels to nodes. Should two nodes
// have the same, a volume that only the label places is charged to both.
func (l *Ledger) moveHostname(node, from, to string) error {
	if from != "" {
		delete(l.hostnames[from], node)
		if len(l.hostnames[from]) == 0 {
			delete(l.hostnames, from)
		}
	}
	if to != "" {
		if l.hostnames[to] == nil {
			l.hostnames[to] = map[string]struct{}{}
		}
		l.hostnames[to][node] = struct{}{}
	}
	return errors.Join(l.reviewAll(l.labelled[from]), l.reviewAll(l.labelled[to]))
}
