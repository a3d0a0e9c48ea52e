package k8s

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// lag measures the time from the change of an object until its
// record is written.
type lag struct {
	length prometheus.Gauge // number of waiting objects

	mu    sync.Mutex
	since map[string]time.Time // by key: first change of queued objects
	being map[string]time.Time // by key: the same of objects being reconciled, which may be queued again
}

func newLag(length prometheus.Gauge) *lag {
	return &lag{length: length, since: map[string]time.Time{}, being: map[string]time.Time{}}
}

// marked records a change, unless an earlier one of the object waits.
func (l *lag) marked(key string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mark(key, now)
	l.length.Set(float64(l.count()))
}

func (l *lag) mark(key string, now time.Time) {
	if before, waits := l.since[key]; !waits || now.Before(before) {
		l.since[key] = now
	}
}

// begin is called when the reconciliation of an object begins. The object counts as waiting until end.
func (l *lag) begin(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if since, waits := l.since[key]; waits {
		l.being[key] = since
		delete(l.since, key)
	}
}

// end is called when a reconciliation ends; right reports whether it succeeded. It returns the time of the
// change; zero: none. Changes since begin keep waiting.
func (l *lag) end(key string, right bool) (since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	since, waited := l.being[key]
	delete(l.being, key)
	if waited && !right {
		l.mark(key, since)
	}
	l.length.Set(float64(l.count()))
	return since
}

// waiting returns the number of waiting objects and the time of the first change.
func (l *lag) waiting() (count int, first time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, waiting := range []map[string]time.Time{l.since, l.being} {
		for _, since := range waiting {
			if first.IsZero() || since.Before(first) {
				first = since
			}
		}
	}
	return l.count(), first
}

// count returns the number of waiting objects.
func (l *lag) count() int {
	n := len(l.since)
	for key := range l.being {
		if _, again := l.since[key]; !again {
			n++
		}
	}
	return n
}

// Metrics are the metrics of all terms of a netmaster.
type Metrics struct {
	waiting *prometheus.GaugeVec
	written *prometheus.HistogramVec
}

// NewMetrics returns new metrics, to be registered.
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
