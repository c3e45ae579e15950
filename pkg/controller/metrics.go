package controller

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const metricPrefix = "csi_local_controller_"

// Results of steps, as a label.
const (
	resultDone     = "done"
	resultDryRun   = "dry_run"
	resultBrake    = "brake"
	resultConflict = "conflict"
	resultError    = "error"
)

// Metrics count what the controller does. Make them with [NewMetrics].
type Metrics struct {
	steps      *prometheus.CounterVec
	reconciles *prometheus.HistogramVec
	hopeless   *prometheus.GaugeVec
	leader     prometheus.Gauge
	registerer prometheus.Registerer

	mu sync.Mutex
	// claims are the reasons why claims are hopeless, by their key.
	claims map[string][]string
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: metricPrefix + "steps_total",
			Help: "Steps about lost nodes, by step (delete_claim, delete_volume, finish_deletion, clear_selected_node) " +
				"and result (done, dry_run, brake, conflict, error).",
		}, []string{"step", "result"}),
		reconciles: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    metricPrefix + "reconcile_seconds",
			Help:    "Time that looks at one object took, by kind of object (volume, claim) and result (success, error).",
			Buckets: []float64{.0001, .001, .01, .1, 1, 10, 60},
		}, []string{"kind", "result"}),
		hopeless: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: metricPrefix + "hopeless_claims", Help: "Unbound claims that can get no volume, by the reason of their event.",
		}, []string{"reason"}),
		leader: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: metricPrefix + "leader", Help: "1 if this process is the one that acts.",
		}),
		registerer: registerer,
		claims:     map[string][]string{},
	}
	for _, reason := range hopelessReasons() {
		m.hopeless.WithLabelValues(reason)
	}
	registerer.MustRegister(m.steps, m.reconciles, m.hopeless, m.leader)
	return m
}

// lossCollector counts losses when it is asked for them.
type lossCollector struct {
	count                 func() losses
	missing, known, brake *prometheus.Desc
}

func newLossCollector(count func() losses) *lossCollector {
	describe := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(metricPrefix+name, help, nil, nil) }
	return &lossCollector{
		count:   count,
		missing: describe("missing_nodes", "Nodes with volumes in use that the API server has no Node object of."),
		known:   describe("known_nodes", "Nodes that hold volumes or publish pools, missing ones among them."),
		brake:   describe("brake", "1 if nothing is done about lost nodes because too many are missing at the same time."),
	}
}

// Describe implements [prometheus.Collector].
func (l *lossCollector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(l, out) }

// Collect implements [prometheus.Collector].
func (l *lossCollector) Collect(out chan<- prometheus.Metric) {
	now := l.count()
	brake := 0.0
	if now.brake() {
		brake = 1
	}
	out <- prometheus.MustNewConstMetric(l.missing, prometheus.GaugeValue, float64(now.missing))
	out <- prometheus.MustNewConstMetric(l.known, prometheus.GaugeValue, float64(now.known))
	out <- prometheus.MustNewConstMetric(l.brake, prometheus.GaugeValue, brake)
}

// watchLosses shows the figures that count returns, until stop is called. Before
// the caches are filled they would be wrong, so they are not there.
func (m *Metrics) watchLosses(count func() losses) (stop func(), err error) {
	collector := newLossCollector(count)
	if err := m.registerer.Register(collector); err != nil {
		return nil, err
	}
	return func() { m.registerer.Unregister(collector) }, nil
}

func (m *Metrics) step(name, result string) { m.steps.WithLabelValues(name, result).Inc() }

func (m *Metrics) reconciled(kind string, err error, took time.Duration) {
	result := "success"
	if err != nil {
		result = "error"
	}
	m.reconciles.WithLabelValues(kind, result).Observe(took.Seconds())
}

// claim takes in why a claim is hopeless; no reason means that it is not.
func (m *Metrics) claim(key string, reasons []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, reason := range m.claims[key] {
		m.hopeless.WithLabelValues(reason).Dec()
	}
	delete(m.claims, key)
	if len(reasons) == 0 {
		return
	}
	m.claims[key] = slices.Clone(reasons)
	for _, reason := range reasons {
		m.hopeless.WithLabelValues(reason).Inc()
	}
}

// Leading shows whether this process is the one that acts.
func (m *Metrics) Leading(leading bool) {
	m.leader.Set(0)
	if leading {
		m.leader.Set(1)
	}
}
