package reporter

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const metricPrefix = "csi_local_publish_"

// Metrics count what the reporter does. Make them with [NewMetrics].
type Metrics struct {
	requests  *prometheus.HistogramVec
	foreign   prometheus.Counter
	changes   *prometheus.CounterVec
	published *prometheus.GaugeVec
	confirmed *prometheus.GaugeVec
	trusted   *prometheus.GaugeVec
	paused    prometheus.Gauge
	gate      prometheus.Gauge
	count     prometheus.Gauge
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: metricPrefix + name, Help: help})
	}
	byPool := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: metricPrefix + name, Help: help}, []string{"pool"})
	}
	m := &Metrics{
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: metricPrefix + "seconds",
			Help: "Time that attempts to write this node's Node and CSINode took, by object and result " +
				"(success, conflict, throttled, forbidden, invalid, missing, timeout, error).",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"object", "result"}),
		foreign: prometheus.NewCounter(prometheus.CounterOpts{
			Name: metricPrefix + "foreign_writes_total", Help: "Times that somebody else was found to have changed the pools' annotation.",
		}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: metricPrefix + "changes_total", Help: "Changes of what is published, by object.",
		}, []string{"object"}),
		published: byPool("bytes", "What stands in the Node's annotation for the pool."),
		confirmed: byPool("confirmed_age_seconds", "How long ago LVM confirmed the pool's figure, when it was last looked at."),
		trusted:   byPool("trusted", "1 if the pool's figure is up to date, 0 if LVM does not confirm it."),
		paused:    gauge("paused", "1 if an operator has pinned what is published."),
		gate:      gauge("version_gate_closed", "1 if nothing is written because a newer version wrote last."),
		count:     gauge("volumes", "The number of volumes in the driver's entry of the CSINode; -1 if there is none."),
	}
	registerer.MustRegister(m.requests, m.foreign, m.changes, m.published, m.confirmed, m.trusted, m.paused, m.gate, m.count)
	return m
}

func (m *Metrics) attempt(kind Kind, result string, took time.Duration) {
	m.requests.WithLabelValues(kind.String(), result).Observe(took.Seconds())
	if result == "success" {
		m.changes.WithLabelValues(kind.String()).Inc()
	}
}

// pools shows the figures; series of pools that are gone go away.
func (m *Metrics) pools(now time.Duration, published map[string]int64, b *books) {
	m.published.Reset()
	for pool, bytes := range published {
		m.published.WithLabelValues(pool).Set(float64(bytes))
	}
	m.confirmed.Reset()
	m.trusted.Reset()
	for pool, book := range b.pools {
		m.trusted.WithLabelValues(pool).Set(boolean(book.verdict == sound))
		if book.trust.known {
			m.confirmed.WithLabelValues(pool).Set((now - book.trust.confirmed).Seconds())
		}
	}
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func isDeadline(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
