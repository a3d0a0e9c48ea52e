package pipeline

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/testkit"
)

// Each of many pods may query the switch, and their floods together are limited in the datapath, too; the host's
// own query is answered.
func TestPodsThatFloodTogetherAreLimitedTogether(t *testing.T) {
	const many, each = 24, answersAtOnce
	const together, togetherAtOnce = answersPerSecond, 2 * each // of all: a busy machine may not flood as fast as answersOfAllPerSecond
	var endpoints []Endpoint
	for i := range byte(many) {
		endpoints = append(endpoints, endpoint(fmt.Sprint("web", 2*i+1), webBlue, 2*i+1, front)) // odd ones are on one node
	}
	host := endpoint("host", webBlue, 2*many+1, front)
	host.Host = true
	c := startCluster(t, append(endpoints, host)...)
	asks := func(e Endpoint) []byte { return arpFrame(e.MAC, e.IPv4, webBlue.Gateway) }
	isAnswer := func(f []byte) bool { return f[12] == 8 && f[13] == 6 && f[21] == 2 }
	n := c.pod(host).node

	// A single one has the limit of a port, however many others there are.
	first := c.pod(endpoints[0])
	floods := func(e Endpoint, packets int) {
		w, frame := c.pod(e).wire(), asks(e)
		for range packets {
			w.send(frame)
		}
	}
	testkit.Eventually(t, soon, "one port has asked for more than it may", func() bool {
		floods(endpoints[0], each)
		return n.meter(t, first.port).Bands[0].Packets > 0
	})
	if all := n.meter(t, meterOfAll); all.Bands[0].Packets > 0 || all.Packets < each {
		t.Errorf("of one port %d packets are at the meter of all, which drops %d", all.Packets, all.Bands[0].Packets)
	}
	n.connected(t, func(conn *openflow.Conn) error {
		return conn.Send(t.Context(), openflow.MeterMod{Command: openflow.MeterModify, Meter: packetMeter(meterOfAll, together, togetherAtOnce)})
	})
	before, began := n.meter(t, meterOfAll), time.Now()
	for _, e := range endpoints[1:] {
		floods(e, each)
	}
	testkit.Eventually(t, soon, "together they ask for more than they may", func() bool { return n.meter(t, meterOfAll).Bands[0].Packets > before.Bands[0].Packets })
	hosts := c.pod(host).wire()
	hosts.send(asks(host))
	if hosts.receive(soon, isAnswer) == nil {
		t.Error("the host is not answered")
	}
	all, seconds := n.meter(t, meterOfAll), uint64(time.Since(began)/time.Second)+1
	refused := all.Bands[0].Packets - before.Bands[0].Packets
	passed := all.Packets - before.Packets - refused
	t.Logf("in %d s %d at the meter of all, %d refused", seconds, all.Packets-before.Packets, refused)
	if limit := togetherAtOnce + together*seconds; passed > limit {
		t.Errorf("%d pods were answered %d times in %d s, want at most %d", many, passed, seconds, limit)
	}
	// The excess is dropped in the datapath, before it reaches ovs-vswitchd.
	if flows := n.Appctl("dpctl/dump-flows"); !regexp.MustCompile(`actions:meter\(\d+\),meter\(\d+\),[^\n]*recirc`).MatchString(flows) {
		t.Errorf("the datapath does not have both meters in one flow, before it asks ovs-vswitchd:\n%s", flows)
	}
	// Once they have stopped, all are answered again.
	last := c.pod(endpoints[many-1])
	w := last.wire()
	testkit.Eventually(t, soon, "one of them is answered", func() bool {
		w.send(asks(last.Endpoint))
		return w.receive(time.Second, isAnswer) != nil
	})
}
