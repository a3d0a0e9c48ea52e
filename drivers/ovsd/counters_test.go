package ovsd_test

import (
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

func TestCountersOfEndpointsAndRulesSurviveTheDriver(t *testing.T) {
	n := newNode(t)
	r := n.start()
	a, b := n.newPod(r, 1), n.newPod(r, 2)
	a.endpoint.Group, b.endpoint.Group = 5, 6
	ping := pipeline.Rule{ID: "r1", Priority: 3, SrcGroup: 5, DstGroup: 6, Protocol: 1, Allow: true}
	all := everything(a, b)
	all.Set = append(all.Set, ping)
	r.give(all)
	// All five are answered, however late: none of them is dropped while it waits for an ARP answer.
	for _, pair := range [][2]*pod{{a, b}, {b, a}} {
		pair[0].exec("ip", "neighbour", "replace", pair[1].endpoint.IPv4.String(), "lladdr", mac(pair[1].endpoint.MAC), "dev", "eth0", "nud", "permanent")
	}
	a.exec("ping", "-c", "5", "-i", "0.01", "-W", "60", b.endpoint.IPv4.String())

	keys := []pipeline.Key{a.endpoint.Key(), b.endpoint.Key(), ping.Key(), remote(9, 0).Key()}
	var counters map[pipeline.Key]drivers.Counters
	counted := func() bool {
		var err error
		if counters, err = r.Counters(patience(t), keys...); err != nil {
			t.Fatal(err)
		}
		return counters[keys[0]].Sent.Packets >= 5 && counters[keys[0]].Received.Packets == 5 && counters[keys[1]].Received.Packets == 5 && counters[keys[2]].Decided.Packets == 5
	}
	eventually(t, "the switch has counted", counted)
	if c := counters[keys[0]]; c.Received.Bytes < 5*84 || c.Decided != (drivers.Count{}) {
		t.Errorf("sender: %+v", c)
	}
	if c := counters[keys[3]]; c.Sent != (drivers.Count{}) || c.Received != (drivers.Count{}) {
		t.Errorf("an endpoint without flows: %+v", c)
	}
	before := counters
	r.stop()
	r = n.start()
	if _, err := r.Counters(patience(t), keys...); err != nil && !fault.Is(err, fault.Unavailable) {
		t.Errorf("not connected: %v", err)
	}
	r.give(all)
	if !counted() || counters[keys[2]].Decided != before[keys[2]].Decided || counters[keys[1]].Received != before[keys[1]].Received {
		t.Errorf("after a restart %+v, before %+v", counters, before)
	}
}
