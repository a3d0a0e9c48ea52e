package ovsd_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// policyOf is so many rules between overlapping groups: each pair of groups has
// rules for several ports, some of them by address, and a denial of the rest.
func policyOf(count int) []pipeline.Object {
	const groups = 50
	var rules []pipeline.Object
	for i := range count {
		pair := i % (groups * groups)
		r := pipeline.Rule{
			ID: fmt.Sprint("rule-", i), Priority: 2 + i%50, Allow: true, Protocol: 6, DstPort: uint16(1000 + i/(groups*groups)),
			SrcGroup: uint16(1 + pair/groups), DstGroup: uint16(1 + pair%groups),
		}
		switch i % 10 {
		case 0:
			r.Priority, r.Allow, r.Protocol, r.DstPort = 1, false, 0, 0
		case 1:
			r.Src = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), 0}), 24)
		case 2:
			r.Protocol = 17
		}
		rules = append(rules, r)
	}
	return rules
}

// BenchmarkLargePolicy measures a node with 1,000 endpoints in overlapping groups,
// 15,000 rules and, if there are any, 1,000 services with five providers each: the first
// programming, with what ovs-ofctl takes for the same flows beside it, and one rule and one
// provider that come and go. Run it with -benchtime=1x.
func BenchmarkLargePolicy(b *testing.B) {
	b.Run("rules", func(b *testing.B) { benchLargePolicy(b, 0) })
	b.Run("services", func(b *testing.B) { benchLargePolicy(b, 1000) })
}

func benchLargePolicy(b *testing.B, services int) {
	n := newNode(b)
	all := many(1000)
	for i, o := range all[1:] {
		e := o.(pipeline.Endpoint)
		e.Group = uint16(1 + i%50)
		all[1+i] = e
	}
	all = append(all, policyOf(15_000)...)
	for i := range services {
		all = append(all, serviceOf(i, i, providersOfService))
	}
	r := n.start()
	r.give(drivers.Change{Replace: true})
	b.ResetTimer()
	sync := func(change drivers.Change, keys ...pipeline.Key) time.Duration {
		ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
		defer cancel()
		began := time.Now()
		r.Update(change)
		if err := r.Sync(ctx, keys...); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	cold := sync(drivers.Change{Replace: true, Set: all})
	b.ReportMetric(cold.Seconds(), "s-cold")
	b.ReportMetric(float64(r.Status().Flows), "flows")

	changes := func(name string, object func(i int) pipeline.Object) {
		var took []time.Duration
		for i := range 50 {
			o := object(i)
			took = append(took, sync(drivers.Change{Set: []pipeline.Object{o}}, o.Key()))
		}
		slices.Sort(took)
		b.ReportMetric(took[len(took)/2].Seconds()*1000, "ms-"+name)
		b.ReportMetric(took[len(took)-1].Seconds()*1000, "ms-worst-"+name)
	}
	changes("rule", func(i int) pipeline.Object {
		return pipeline.Rule{ID: "one-more", Priority: 60, SrcGroup: 3, DstGroup: 4, Protocol: 6, DstPort: 99, Allow: i%2 == 1}
	})
	if services > 0 {
		changes("provider", func(i int) pipeline.Object { return serviceOf(7, 7, providersOfService-1+i%2) })
		return // the flows alone, without groups, are refused
	}

	file := filepath.Join(b.TempDir(), "flows")
	if err := os.WriteFile(file, []byte(strings.Join(n.flows(), "\n")), 0o600); err != nil {
		b.Fatal(err)
	}
	n.AddBridge("br-reference")
	began := time.Now()
	n.Exec("ovs-ofctl", "-O", "OpenFlow15", "--bundle", "add-flows", "br-reference", file)
	reference := time.Since(began)
	b.ReportMetric(reference.Seconds(), "s-ofctl")
	b.ReportMetric(cold.Seconds()/reference.Seconds(), "cold/ofctl")
}
