package schedplugin

import (
	"sync/atomic"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const metricsSubsystem = "csi_local_scheduler"

// collector exports the plugin's metrics through the registry that kube-scheduler
// serves. All but the decisions are read off the ledgers when they are asked for;
// the ledgers keep the sums, so that does not grow with the number of volumes.
type collector struct {
	metrics.BaseStableCollector
	shared *shared
	// decisions counts refusals by reason; reserved counts reservations.
	decisions [reasons]atomic.Uint64
	reserved  atomic.Uint64

	decided, poolBytes, entries, rebuild, oldest, settling, unreadable *metrics.Desc
}

func newCollector(s *shared) *collector {
	desc := func(name, help string, labels ...string) *metrics.Desc {
		return metrics.NewDesc(metricsSubsystem+"_"+name, help, labels, nil, metrics.ALPHA, "")
	}
	return &collector{
		shared:     s,
		decided:    desc("decisions_total", "Nodes and pods refused, by reason, and pods for which room was reserved.", "reason"),
		poolBytes:  desc("pool_bytes", "Bytes of a pool over all nodes: allocatable as published, used by volumes and claims in the API, reserved by scheduling cycles. An empty pool stands for volumes whose pool is not known.", "driver", "pool", "kind"),
		entries:    desc("ledger_entries", "Volumes in the ledger by state.", "driver", "state"),
		rebuild:    desc("ledger_rebuild_seconds", "How long it took to build the ledger from the API at the start; 0 until it is built.", "driver"),
		oldest:     desc("oldest_reservation_seconds", "Age of the oldest reservation that no API object tells of; 0 if there is none. It should stay below the time a pod takes to be bound.", "driver"),
		settling:   desc("settling_reservations", "Reservations of failed scheduling cycles that wait for the API to tell whether they were written.", "driver"),
		unreadable: desc("unreadable_nodes", "Nodes whose capacity annotation cannot be read, wholly or in part.", "driver"),
	}
}

func (c *collector) register() error { return legacyregistry.CustomRegister(c) }

func (c *collector) count(r Reason) { c.decisions[r].Add(1) }

func (c *collector) countReserved() { c.reserved.Add(1) }

// DescribeWithStability lists the metrics.
func (c *collector) DescribeWithStability(out chan<- *metrics.Desc) {
	for _, d := range []*metrics.Desc{c.decided, c.poolBytes, c.entries, c.rebuild, c.oldest, c.settling, c.unreadable} {
		out <- d
	}
}

// CollectWithStability reads the metrics.
func (c *collector) CollectWithStability(out chan<- metrics.Metric) {
	for r := ReasonNone + 1; r < reasons; r++ {
		out <- metrics.NewLazyConstMetric(c.decided, metrics.CounterValue, float64(c.decisions[r].Load()), r.Label())
	}
	out <- metrics.NewLazyConstMetric(c.decided, metrics.CounterValue, float64(c.reserved.Load()), "reserved")
	for _, books := range c.shared.list() {
		c.collectDriver(out, books)
	}
}

func (c *collector) collectDriver(out chan<- metrics.Metric, books *driverBooks) {
	driver, s := books.ledger.driver, books.ledger.Stats()
	gauge := func(d *metrics.Desc, value float64, labels ...string) {
		out <- metrics.NewLazyConstMetric(d, metrics.GaugeValue, value, append([]string{driver}, labels...)...)
	}
	for pool, t := range s.Pools {
		gauge(c.poolBytes, float64(t.AllocatableBytes), pool, "allocatable")
		gauge(c.poolBytes, float64(t.UsedBytes), pool, "used")
		gauge(c.poolBytes, float64(t.ReservedBytes), pool, "reserved")
	}
	for state, n := range s.Entries {
		gauge(c.entries, float64(n), state)
	}
	gauge(c.rebuild, time.Duration(books.rebuildNanos.Load()).Seconds())
	gauge(c.oldest, s.OldestReservation.Seconds())
	gauge(c.settling, float64(s.Settling))
	gauge(c.unreadable, float64(s.UnreadableNodes))
}
