package ovsd_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// many returns count endpoints of other nodes.
func many(count int) []pipeline.Object {
	list := []pipeline.Object{network}
	for i := range count {
		e := remote(0, 5)
		e.ID = fmt.Sprint("web.blue-", i)
		e.IPv4 = netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)})
		e.MAC = [6]byte{2, 3, byte(i >> 16), byte(i >> 8), byte(i), 1}
		list = append(list, e)
	}
	return list
}

// BenchmarkLargeSwitch measures the costs of a node with hundreds of thousands of flows, once each: the first
// installation, beside the time of ovs-ofctl for the same flows; a restart of the driver; and the worst latency of
// a change during audits. Run it with -benchtime=1x.
func BenchmarkLargeSwitch(b *testing.B) {
	for _, flows := range []int{60_000, 600_000} {
		b.Run(fmt.Sprint(flows), func(b *testing.B) { benchmarkLarge(b, flows) })
	}
}

func benchmarkLarge(b *testing.B, flows int) {
	n := newNode(b)
	n.config.AuditInterval = 5 * time.Second
	all := drivers.Change{Replace: true, Set: many(flows / 3)}
	r := n.start()
	r.give(drivers.Change{Replace: true})
	took := func(what string, do func()) time.Duration {
		began := time.Now()
		do()
		b.ReportMetric(time.Since(began).Seconds(), what)
		return time.Since(began)
	}
	b.ResetTimer()
	give := func() {
		r.Update(all)
		ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
		defer cancel()
		if err := r.Sync(ctx); err != nil {
			b.Fatal(err)
		}
	}
	cold := took("s-install", give)
	b.ReportMetric(float64(r.Status().Flows), "flows")
	r.stop()

	file := filepath.Join(b.TempDir(), "flows")
	if err := os.WriteFile(file, []byte(strings.Join(n.flows(), "\n")), 0o600); err != nil {
		b.Fatal(err)
	}
	n.AddBridge("br-reference")
	reference := took("s-ofctl", func() { n.Exec("ovs-ofctl", "-O", "OpenFlow15", "--bundle", "add-flows", "br-reference", file) })
	b.ReportMetric(cold.Seconds()/reference.Seconds(), "install/ofctl")
	n.Vsctl("del-br", "br-reference")

	r = n.start()
	took("s-restart", give)
	var worst time.Duration
	for began, i := time.Now(), uint16(0); time.Since(began) < 20*time.Second; i++ {
		change := time.Now()
		e := remote(9, i%2)
		r.Update(drivers.Change{Set: []pipeline.Object{e}})
		if err := r.Sync(patience(b), e.Key()); err != nil {
			b.Fatal(err)
		}
		worst = max(worst, time.Since(change))
	}
	b.ReportMetric(worst.Seconds()*1000, "ms-worst-change")
}
