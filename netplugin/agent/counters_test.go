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
	store.put(ruleKey("red:r"), ruleValue("red:r", "allow")) // of a tenant that is not here
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

// An answer to a host passes the node of the provider and that of the host.
func TestAnswersToHostsAreCountedByTheProvidersNode(t *testing.T) {
	const id = "shop:blue"
	n := blueHere(t)
	n.put(epKey("web.blue-1"), epValue("web.blue", me, "10.1.0.2")).put(epKey("web.blue-2"), epValue("web.blue", "node2", "10.1.0.3")).
		put(mastercfg.ServiceLBPrefix+id, serviceValue(`"80:8080:TCP"`)).step()
	here, there := netip.MustParseAddr("10.1.0.2"), netip.MustParseAddr("10.1.0.3")
	answers := func(by netip.Addr, leaving bool) pipeline.Served {
		return pipeline.Served{Provider: by, Protocol: 6, Target: 8080, Leaving: leaving}
	}
	a := &Agent{cache: n.cache}
	counts, ok := a.serviceCounts(id, map[pipeline.Served]drivers.Count{
		answers(here, false): {Packets: 1, Bytes: 100}, answers(here, true): {Packets: 2, Bytes: 200},
		answers(there, false): {Packets: 4, Bytes: 400}, answers(there, true): {Packets: 8, Bytes: 800},
	})
	want := map[netip.Addr]EndpointCounts{here: {Sent: drivers.Count{Packets: 3, Bytes: 300}}, there: {Sent: drivers.Count{Packets: 4, Bytes: 400}}}
	if !ok || len(counts.Ports) != 1 {
		t.Fatal(counts, ok)
	}
	if diff := cmp.Diff(want, counts.Ports[0].Providers); diff != "" {
		t.Error(diff)
	}
}
