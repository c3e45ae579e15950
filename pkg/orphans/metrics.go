package orphans

import "github.com/prometheus/client_golang/prometheus"

const metricPrefix = "csi_local_orphan"

// Metrics count orphans and what is done about them. Make them with [NewMetrics].
type Metrics struct {
	volumes *prometheus.GaugeVec
	bytes   *prometheus.GaugeVec
	looks   *prometheus.CounterVec
	deleted *prometheus.CounterVec
	held    prometheus.Gauge
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		volumes: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: metricPrefix + "s", Help: "Volumes whose PersistentVolume does not exist, by pool and kind (leaked, retained).",
		}, []string{"pool", "kind"}),
		bytes: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: metricPrefix + "_bytes", Help: "What they take from their pool, by pool and kind.",
		}, []string{"pool", "kind"}),
		looks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: metricPrefix + "_looks_total",
			Help: "Looks for the PersistentVolume of a volume, by result (present, missing, foreign, doubt, error).",
		}, []string{"result"}),
		deleted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: metricPrefix + "s_deleted_total", Help: "Orphans that were deleted, by kind.",
		}, []string{"kind"}),
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: metricPrefix + "s_held", Help: "1 if nothing is decided because the API server's answers are in doubt.",
		}),
	}
	registerer.MustRegister(m.volumes, m.bytes, m.looks, m.deleted, m.held)
	return m
}

func (m *Metrics) setHeld(held bool) {
	m.held.Set(0)
	if held {
		m.held.Set(1)
	}
}

// show sets the gauges to what the volumes say; series of pools without orphans go away.
func (m *Metrics) show(volumes []Volume) {
	m.volumes.Reset()
	m.bytes.Reset()
	for _, v := range volumes {
		if !v.IsOrphan() {
			continue
		}
		kind := string(v.Kind())
		m.volumes.WithLabelValues(v.Pool, kind).Inc()
		m.bytes.WithLabelValues(v.Pool, kind).Add(float64(v.PoolBytes))
	}
}
