package driver

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc/codes"

	"github.com/csi-local/csi-local/pkg/lvm"
)

// metricPrefix begins the name of every metric of this program.
const metricPrefix = "csi_local_"

// Metrics counts what the driver and LVM do. One belongs to one Driver.
type Metrics struct {
	registry    *prometheus.Registry
	calls       *prometheus.HistogramVec
	running     *prometheus.GaugeVec
	lvmCommands *prometheus.HistogramVec
	lvmWait     prometheus.Histogram
	lvmStarts   prometheus.Counter
	wipes       prometheus.Histogram
	failures    *prometheus.CounterVec
}

// NewMetrics makes the metrics, with those of the Go runtime and the process.
func NewMetrics() *Metrics {
	// From a look at memory to a wipe of a large disk.
	durations := []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: metricPrefix + "operations_seconds",
			Help: "Time that CSI calls took, by method and gRPC code of the answer.", Buckets: durations,
		}, []string{"method", "code"}),
		running: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: metricPrefix + "operations_running",
			Help: "CSI calls that have not been answered yet, by method.",
		}, []string{"method"}),
		lvmCommands: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: metricPrefix + "lvm_command_seconds",
			Help: "Time that LVM commands took, by command and whether they succeeded.", Buckets: durations,
		}, []string{"command", "result"}),
		lvmWait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: metricPrefix + "lvm_wait_seconds",
			Help: "Time that LVM commands waited for their turn.", Buckets: durations,
		}),
		lvmStarts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: metricPrefix + "lvm_processes_started_total",
			Help: "Operating system processes that were started to run LVM.",
		}),
		wipes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: metricPrefix + "wipe_seconds",
			Help: "Time that it took to make the bytes of a deleted volume read as zero.", Buckets: durations,
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: metricPrefix + "operation_failures_total",
			Help: "CSI calls that failed, by method, gRPC code and class (capacity, permission, topology, transient, other).",
		}, []string{"method", "code", "class"}),
	}
	m.registry.MustRegister(m.calls, m.running, m.lvmCommands, m.lvmWait, m.lvmStarts, m.wipes, m.failures,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler serves the metrics over HTTP.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// Registerer takes the metrics of other parts of the process.
func (m *Metrics) Registerer() prometheus.Registerer { return m.registry }

// ObserveLVM counts one LVM command; it is made for lvm.Options.Observe.
func (m *Metrics) ObserveLVM(stats lvm.CommandStats) {
	result := "success"
	switch {
	case stats.ExitCode < 0:
		result = "lost"
	case stats.ExitCode > 0:
		result = "failure"
	}
	m.lvmCommands.WithLabelValues(stats.Command, result).Observe(stats.Run.Seconds())
	m.lvmWait.Observe(stats.Wait.Seconds())
	if stats.Process {
		m.lvmStarts.Inc()
	}
}

// beginCall counts a call as running until the returned function gets its code.
func (m *Metrics) beginCall(method string) (done func(codes.Code)) {
	running := m.running.WithLabelValues(method)
	running.Inc()
	start := time.Now()
	return func(code codes.Code) {
		running.Dec()
		m.calls.WithLabelValues(method, code.String()).Observe(time.Since(start).Seconds())
	}
}

// watchPools adds the figures of the driver's pools.
func (m *Metrics) watchPools(d *Driver) { m.registry.MustRegister(newPoolCollector(d)) }

// poolCollector reads the pools when the metrics are asked for, so that what
// no longer exists has no series.
type poolCollector struct {
	driver                                                      *Driver
	size, allocatable, allocated, available, data, meta, usable *prometheus.Desc
	volumes, age                                                *prometheus.Desc
}

func newPoolCollector(d *Driver) *poolCollector {
	gauge := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(metricPrefix+name, help, labels, nil)
	}
	return &poolCollector{
		driver:      d,
		size:        gauge("pool_size_bytes", "Physical size of the pool.", "pool"),
		allocatable: gauge("pool_allocatable_bytes", "What volumes of this driver may occupy in total.", "pool"),
		allocated:   gauge("pool_allocated_bytes", "What volumes of this driver occupy.", "pool"),
		available:   gauge("pool_available_bytes", "What new volumes may occupy.", "pool"),
		data:        gauge("pool_thin_data_percent", "How full the data of a thin pool is.", "pool"),
		meta:        gauge("pool_thin_metadata_percent", "How full the metadata of a thin pool is.", "pool"),
		usable:      gauge("pool_usable", "1 if volumes can be made in the pool, 0 if something is wrong with it.", "pool"),
		volumes:     gauge("pool_volumes", "Volumes of this driver in the pool, by state (new, used, deleting).", "pool", "state"),
		age:         gauge("lvm_state_age_seconds", "Age of the last state that was read from LVM."),
	}
}

// Describe is part of prometheus.Collector. It must not look at the pools: LVM may not have answered yet.
func (c *poolCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{c.size, c.allocatable, c.allocated, c.available, c.data, c.meta, c.usable, c.volumes, c.age} {
		ch <- desc
	}
}

// scrapeTimeout bounds the wait for LVM's very first report.
const scrapeTimeout = time.Second

// Collect is part of prometheus.Collector. It starts no process.
func (c *poolCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	inv, err := c.driver.inventory(ctx)
	if err != nil {
		for _, pool := range c.driver.pools() {
			gauge(c.usable, 0, pool.Name)
		}
		return
	}
	gauge(c.age, time.Since(inv.state.Taken).Seconds())
	for _, pool := range c.driver.pools() {
		usage, err := inv.usage(pool)
		if err != nil {
			gauge(c.usable, 0, pool.Name)
			continue
		}
		gauge(c.usable, 1, pool.Name)
		gauge(c.size, float64(usage.sizeBytes()), pool.Name)
		gauge(c.allocatable, float64(usage.allocatable()), pool.Name)
		gauge(c.allocated, float64(usage.allocated()), pool.Name)
		gauge(c.available, float64(usage.available()), pool.Name)
		if usage.thin.DataBytes > 0 {
			gauge(c.data, usage.thin.DataPercent, pool.Name)
			gauge(c.meta, usage.thin.MetadataPercent, pool.Name)
		}
		for state, count := range inv.countByState(pool.Name) {
			gauge(c.volumes, float64(count), pool.Name, string(state))
		}
	}
}

func (inv *inventory) countByState(pool string) map[volumeState]int {
	counts := map[volumeState]int{stateNew: 0, stateUsed: 0, stateDeleting: 0}
	for _, v := range inv.volumes {
		if v.Pool == pool {
			counts[v.State]++
		}
	}
	return counts
}
