package agent

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

func TestCountersAreThoseOfWhatIsProgrammedHere(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	store.put(ruleKey("red:r"), ruleValue("red:r", "allow")) // of a tenant that is not on this node
	a := startAgent(t, store.db, driver)
	a.awaitReady(t)
	rules := map[string]drivers.Count{blueRule: {Packets: 1}}
	endpoints := map[string]EndpointCounts{"web.blue-1": {Sent: drivers.Count{Packets: 2}}}
	none := Counters{Rules: map[string]drivers.Count{}, Endpoints: map[string]EndpointCounts{}}
	for _, c := range []struct {
		kind pipeline.Kind
		id   string
		want Counters
	}{
		{"", "", Counters{Rules: rules, Endpoints: endpoints}},
		{pipeline.KindRule, "", Counters{Rules: rules, Endpoints: none.Endpoints}},
		{pipeline.KindEndpoint, "web.blue-1", Counters{Rules: none.Rules, Endpoints: endpoints}},
		{pipeline.KindEndpoint, "web.blue-2", none}, // on another node
		{pipeline.KindRule, "red:r", none},
	} {
		got, err := a.Counters(t.Context(), c.kind, c.id)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s %s: %s", c.kind, c.id, diff)
		}
	}
}

// Several ports of a service may have the same target port.
func TestWhatIsServedIsToldByPortAndProvider(t *testing.T) {
	const id = "shop:blue"
	n := blueHere(t)
	n.put(mastercfg.ServiceLBPrefix+id, serviceValue(`"80:8080:TCP","81:8080:TCP"`)).step()
	here, there, vip := netip.MustParseAddr("10.1.0.2"), netip.MustParseAddr("10.1.0.3"), netip.MustParseAddr("10.1.0.200")
	count := func(packets uint64) drivers.Count { return drivers.Count{Packets: packets, Bytes: 100 * packets} }
	a := &Agent{cache: n.cache}
	counts, ok := a.serviceCounts(id, map[pipeline.Served]drivers.Count{
		{Provider: here, Address: vip, Protocol: 6, Port: 81}:                 count(1),
		{Provider: here, Address: vip, Protocol: 6, Port: 81, Answers: true}:  count(2),
		{Provider: there, Address: vip, Protocol: 6, Port: 81, Answers: true}: count(4),
		{Provider: here, Address: vip, Protocol: 6, Port: 82, Answers: true}:  count(8), // it had such a port
	})
	if !ok || len(counts.Ports) != 2 || counts.Ports[1].Port != 81 {
		t.Fatal(counts, ok)
	}
	want := map[netip.Addr]EndpointCounts{here: {Received: count(1), Sent: count(2)}, there: {Sent: count(4)}}
	if diff := cmp.Diff(want, counts.Ports[1].Providers); diff != "" {
		t.Error(diff)
	}
	if got := counts.Ports[0].Providers; len(got) > 0 {
		t.Errorf("the port that nobody has asked: %v", got)
	}
}
