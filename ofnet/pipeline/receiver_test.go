package pipeline

import (
	"slices"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// A removed endpoint is found in its record, whatever its network, and the record is no flow that packets match.
func TestWhoIsGoneIsFoundInItsNote(t *testing.T) {
	for _, o := range goldenObjects {
		e, is := o.(Endpoint)
		if !is {
			continue
		}
		e.Local, e.Tiers = true, Tracked
		want, got := ConnectionsOf(e), []openflow.CTFlush{}
		for _, f := range Departed(e).Flows {
			packed, err := openflow.Pack(f)
			if err != nil {
				t.Fatal(err)
			}
			if e, is := ReceiverOf(packed.Flow()); is && f.Table == tableDeparted {
				got = append(got, ConnectionsOf(e)...)
			}
		}
		slices.SortFunc(want, openflow.CTFlush.Compare)
		slices.SortFunc(got, openflow.CTFlush.Compare)
		if !slices.Equal(got, want) {
			t.Errorf("%s: connections %v, want %v", o.Key(), got, want)
		}
	}
}

// An endpoint of a routed network is found in its flows, once for each address; other flows contain no endpoint.
func TestReceiversAreFoundInTheFlowsOfTheirEndpointsOnly(t *testing.T) {
	p := New(Config{TunnelPort: 1})
	for _, o := range goldenObjects {
		var want, got []openflow.CTFlush
		if e, is := o.(Endpoint); is && !e.Mode.Bridged() {
			e.Local, e.Tiers = true, Tracked
			want = ConnectionsOf(e)
		}
		wants, err := p.For(o, 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range wants.Flows {
			packed, err := openflow.Pack(f)
			if err != nil {
				t.Fatal(err)
			}
			if e, is := ReceiverOf(packed.Flow()); is {
				got = append(got, ConnectionsOf(e)...)
			}
		}
		slices.SortFunc(want, openflow.CTFlush.Compare)
		slices.SortFunc(got, openflow.CTFlush.Compare)
		if !slices.Equal(got, want) {
			t.Errorf("%s: connections %v, want %v", o.Key(), got, want)
		}
	}
}
