package nameserver

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"
)

// Node has the name servers of a node: one at each place, all with the same names.
type Node struct {
	Zones   *Zones
	servers []*Server
}

// NewNode returns the servers of a node. They answer once ready returns. With a nil forwarder, queries for other
// names are refused.
func NewNode(zones *Zones, forwarder *Forwarder, ready func(context.Context) error, places ...Place) *Node {
	n := &Node{Zones: zones}
	for _, place := range places {
		s := newServer(zones, forwarder, place, ready)
		s.Log = logrus.WithField("component", "nameserver")
		n.servers = append(n.servers, s)
	}
	return n
}

// Run runs the servers until ctx is done.
func (n *Node) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		<-ctx.Done()
		return ctx.Err()
	})
	for _, s := range n.servers {
		group.Go(func() error { return s.keep(ctx) })
	}
	return group.Wait()
}

// Records lists all names, by tenant.
func (n *Node) Records() map[string]Records { return n.Zones.Records() }

// Stats returns the sums of the servers' counters.
func (n *Node) Stats() Stats {
	sum := Stats{Tenants: map[string]TenantStats{}}
	for _, s := range n.servers {
		sum.add(s.Stats())
	}
	return sum
}

// Register registers the counters as metrics.
func (n *Node) Register(registry prometheus.Registerer) error {
	for result, read := range map[string]func(Stats) uint64{
		"answered":  func(s Stats) uint64 { return s.Answered },
		"forwarded": func(s Stats) uint64 { return s.Forwarded },
		"failed":    func(s Stats) uint64 { return s.Failed },
		"refused":   func(s Stats) uint64 { return s.Refused },
		"stranger":  func(s Stats) uint64 { return s.Strangers },
	} {
		if err := registry.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "netplugin_dns_questions_total", Help: "Questions for names, by what became of them.", ConstLabels: prometheus.Labels{"result": result},
		}, func() float64 { return float64(read(n.Stats())) })); err != nil {
			return err
		}
	}
	return nil
}
