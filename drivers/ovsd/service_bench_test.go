package ovsd_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// BenchmarkServices measures a thousand services with five providers each, which are shared by many services or
// not: the first installation, and adding or removing a provider afterwards. Run it with -benchtime=1x.
func BenchmarkServices(b *testing.B) {
	b.Run("own", func(b *testing.B) { benchServices(b, 1000) })
	b.Run("shared", func(b *testing.B) { benchServices(b, 40) })
}

// providersOfService is the number of providers of each service.
const providersOfService = 5

// benchServices measures a thousand services with so many groups of five providers.
func benchServices(b *testing.B, groups int) {
	n := newNode(b)
	r := n.start()
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{network}})
	var all drivers.Change
	for i := range 1000 {
		all.Set = append(all.Set, serviceOf(i, i%groups, providersOfService))
	}
	began := time.Now()
	r.give(all)
	b.ReportMetric(time.Since(began).Seconds(), "s-cold")
	b.ReportMetric(float64(r.Status().Flows), "flows")
	var total, worst time.Duration
	const changes = 100
	for i := range changes {
		began := time.Now()
		r.give(drivers.Change{Set: []pipeline.Object{serviceOf(i/2, i/2%groups, providersOfService-1+i%2)}})
		total, worst = total+time.Since(began), max(worst, time.Since(began))
	}
	b.ReportMetric(total.Seconds()*1000/changes, "ms-change")
	b.ReportMetric(worst.Seconds()*1000, "ms-worst-change")
}

// serviceOf returns a service with some of the providers of a group.
func serviceOf(number, group, providers int) pipeline.Service {
	s := pipeline.Service{ID: fmt.Sprint("s", number, ":blue"), VRF: network.VRF, Tag: network.Tag,
		Ports: []pipeline.ServicePort{{Address: netip.AddrFrom4([4]byte{10, 200, byte(number >> 8), byte(number)}), From: pipeline.FromPods,
			Protocol: openflow.ProtoTCP, Port: 80, Target: 8080}}}
	for p := range providers {
		s.Providers = append(s.Providers, netip.AddrFrom4([4]byte{10, byte(100 + p), byte(group >> 8), byte(group)}))
	}
	return s.Numbered(func(uint32) bool { return false })
}
