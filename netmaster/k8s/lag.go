package k8s

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// lag knows since when things wait to be made right, from the change that marks one until its
// record is written.
type lag struct {
	length prometheus.Gauge // how many wait

	mu    sync.Mutex
	since map[string]time.Time // by key
}

func newLag(length prometheus.Gauge) *lag { return &lag{length: length, since: map[string]time.Time{}} }

// marked notes a change; an earlier one that waits counts on.
func (l *lag) marked(key string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, waits := l.since[key]; !waits || now.Before(before) {
		l.since[key] = now
	}
	l.length.Set(float64(len(l.since)))
}

// take is since when a thing has waited that is looked at now; zero: nothing has changed.
func (l *lag) take(key string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	since := l.since[key]
	delete(l.since, key)
	l.length.Set(float64(len(l.since)))
	return since
}

// waiting is how many things wait, and since when the first of them does.
func (l *lag) waiting() (count int, first time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, since := range l.since {
		if first.IsZero() || since.Before(first) {
			first = since
		}
	}
	return len(l.since), first
}

// Metrics are those of all terms of a netmaster.
type Metrics struct {
	waiting *prometheus.GaugeVec
	written *prometheus.HistogramVec
}

// NewMetrics makes them; they are to be registered.
func NewMetrics() *Metrics {
	return &Metrics{
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "netmaster_kubernetes_waiting",
			Help: "Objects that have changed, and are not written down for agents yet, by kind."}, []string{"kind"}),
		written: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "netmaster_kubernetes_written_seconds",
			Help:    "Time from the news of a change to its being written down for agents, by kind.",
			Buckets: prometheus.ExponentialBuckets(.001, 2, 16), // to 33 s
		}, []string{"kind"}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	m.waiting.Describe(to)
	m.written.Describe(to)
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.waiting.Collect(to)
	m.written.Collect(to)
}
