package schedplugin

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// account is one pool's sum on one node, spelled out.
type account struct {
	pool    string
	classes []string
	volumes []accountLine
	// thought is what preemption's what-if adds, in bytes.
	thought   int64
	published bool
	ratio     float64

	used, allocatable, limit, requested int64
}

// accountLine is one volume that counts.
type accountLine struct {
	key         key
	name, class string
	state       entryState
	bytes       int64
	// total is the sum up to this line.
	total int64
	// isAny: the volume's pool is not known.
	isAny bool
}

// explain logs the whole sum of each wanted pool: every volume with the running
// total, the figures, and the decision. log is enabled.
func explain(log klog.Logger, pod *v1.Pod, node string, d *driverCycle, what []adjustment, short Shortage) {
	log = klog.LoggerWithValues(log, "pod", klog.KObj(pod), "node", node, "driver", d.books.ledger.driver)
	for _, a := range d.books.ledger.accounts(node, d.wants.list, what) {
		for _, v := range a.volumes {
			log.Info("Volume counted", "pool", a.pool, "key", v.key, "volume", v.name, "class", v.class, "state", v.state.String(),
				"bytes", v.bytes, "poolUnknown", v.isAny, "totalBytes", v.total)
		}
		log.Info("Pool counted", "pool", a.pool, "classes", a.classes, "volumes", len(a.volumes), "usedBytes", a.used, "whatIfBytes", a.thought,
			"published", a.published, "allocatableBytes", a.allocatable, "oversellRatio", a.ratio, "limitBytes", a.limit,
			"requestedBytes", a.requested, "leftBytes", a.limit-a.used-a.thought, "fits", a.used+a.thought+a.requested <= a.limit)
	}
	log.Info("Node decided", "accepted", short.Reason == ReasonNone, "reason", short.Reason.Label(), "detail", short.String())
}

// accounts spell out the sums of the wanted pools, in the order of their names.
func (l *Ledger) accounts(node string, wants []want, what []adjustment) []account {
	l.mu.RLock()
	defer l.mu.RUnlock()
	books := l.nodes[node]
	var accounts []account
	for begin := 0; begin < len(wants); {
		a := account{pool: wants[begin].demand.pool}
		g := l.group(node, books.pool(a.pool), wants, begin, what)
		begin, a.requested = g.end, g.requested
		a.ratio, a.classes = l.ratio(a.pool), l.classesOf(a.pool)
		for i := range what {
			if what[i].ledger == l && what[i].node == node && (what[i].pool == a.pool || what[i].pool == anyPool) {
				a.thought += what[i].bytes
			}
		}
		if books != nil {
			l.spellOut(&a, node, books)
		}
		accounts = append(accounts, a)
	}
	return accounts
}

func (l *Ledger) spellOut(a *account, node string, books *nodeBooks) {
	if book := books.pool(a.pool); book != nil {
		a.published, a.allocatable, a.limit = book.known, book.allocatable, book.limit
	}
	for _, e := range slices.SortedFunc(maps.Keys(books.volumes), func(a, b *entry) int { return cmp.Compare(a.key, b.key) }) {
		for _, c := range e.charges {
			if c.node != node || c.pool != a.pool && c.pool != anyPool {
				continue
			}
			a.used += c.bytes
			line := accountLine{key: e.key, state: e.state(), bytes: c.bytes, total: a.used, isAny: c.pool == anyPool}
			line.name, line.class = e.names()
			a.volumes = append(a.volumes, line)
		}
	}
}

// names are what people know the volume by.
func (e *entry) names() (name, class string) {
	switch {
	case len(e.volumes) > 0:
		return e.volumes[0].name, e.volumes[0].class
	case e.claim != nil:
		return e.claim.name.String(), e.claim.class
	default:
		return "", ""
	}
}

func (l *Ledger) classesOf(pool string) []string {
	var names []string
	for name, class := range l.classes {
		if class.ours && class.err == nil && !class.gone && class.demand.pool == pool {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
