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
	since map[string]time.Time // of those that nobody looks at, by key
	being map[string]time.Time // of those that are looked at now; they may have changed again
}

func newLag(length prometheus.Gauge) *lag {
	return &lag{length: length, since: map[string]time.Time{}, being: map[string]time.Time{}}
}

// marked notes a change; an earlier one that waits counts on.
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

// begin says that a thing is looked at from now on. It waits until end.
func (l *lag) begin(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if since, waits := l.since[key]; waits {
		l.being[key] = since
		delete(l.since, key)
	}
}

// end says whether a thing has been made right, and returns since when it has waited; zero: nothing
// had changed. What has changed since begin waits on.
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

// waiting is how many things wait, and since when the first of them does.
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

// count is how many things wait, each once.
func (l *lag) count() int {
	n := len(l.since)
	for key := range l.being {
		if _, again := l.since[key]; !again {
			n++
		}
	}
	return n
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
