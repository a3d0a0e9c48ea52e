package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/drivers"
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
