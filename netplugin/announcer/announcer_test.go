package announcer

import (
	"context"
	"encoding/hex"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/announce"
)

// bridge is a driver with a port for each endpoint but one; it tells what it sends.
type bridge struct {
	drivers.NetworkDriver
	sent chan openflow.PacketOut
}

func (bridge) Run(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
func (bridge) Update(drivers.Change)         {}
func (bridge) Ports() []drivers.Port {
	return []drivers.Port{{EndpointID: "four", OFPort: 4}, {EndpointID: "both", OFPort: 6}, {EndpointID: "far", OFPort: 7}, {EndpointID: "routed", OFPort: 8}, {EndpointID: "unnumbered"}}
}

func (b bridge) Send(ctx context.Context, p openflow.PacketOut) error {
	select {
	case b.sent <- p:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func local(id string, mode pipeline.Mode) pipeline.Endpoint {
	return pipeline.Endpoint{ID: id, Mode: mode, Encap: pipeline.VLAN, MAC: [6]byte{2, 2, 10, 1, 7, 2}, IPv4: netip.MustParseAddr("10.1.7.2"), Local: true}
}

func TestLocalEndpointsOfBridgedNetworksAreAnnounced(t *testing.T) { synctest.Test(t, announced) }

func announced(t *testing.T) {
	returned, b := make(chan struct{}), bridge{sent: make(chan openflow.PacketOut)}
	a := New(b, returned)
	both, far := local("both", pipeline.BridgedFlood), local("far", pipeline.BridgedProxy)
	both.IPv6, far.Local = netip.MustParseAddr("fd00:7::2"), false
	gone := local("gone", pipeline.BridgedProxy)
	a.Update(drivers.Change{Set: []pipeline.Object{local("four", pipeline.BridgedProxy), both, far, gone, local("routed", pipeline.Routed), local("unnumbered", pipeline.BridgedProxy)}})
	a.Update(drivers.Change{Remove: []pipeline.Key{gone.Key()}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()

	select {
	case p := <-b.sent:
		t.Errorf("sent before an uplink has returned: %s", p)
	case returned <- struct{}{}:
	}
	const arp = "ffffffffffff02020a010702080600010800060400" + "0102020a0107020a010702" + "0000000000000a010702" + "000000000000000000000000000000000000"
	const nd = "33330000000102020a01070286dd6000000000203aff" + "fd000007000000000000000000000002" + "ff020000000000000000000000000001" +
		"8800" + "4987" + "20000000" + "fd000007000000000000000000000002" + "020102020a010702"
	began := time.Now()
	for round := range len(announce.Rounds) {
		for _, want := range []struct {
			port  uint32
			frame string
		}{{6, arp}, {6, nd}, {4, arp}} {
			select {
			case p := <-b.sent:
				if p.InPort != want.port || hex.EncodeToString(p.Data) != want.frame || !slices.Equal(p.Actions, []openflow.Action{openflow.Output{Port: openflow.PortTable}}) {
					t.Errorf("round %d: sent %x by port %d, %s; want %s by port %d", round, p.Data, p.InPort, p, want.frame, want.port)
				}
			case <-time.After(time.Minute):
				t.Fatalf("round %d: nothing is sent", round)
			}
		}
	}
	if took := time.Since(began); took < 30*time.Second {
		t.Errorf("announced for %s: a tree without loops takes longer", took)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// deaf is a bridge whose switch is away.
type deaf struct{ bridge }

func (d deaf) Send(context.Context, openflow.PacketOut) error {
	d.sent <- openflow.PacketOut{}
	return errors.New("away")
}

func TestASwitchThatIsAwayIsToldOfOneEndpointARound(t *testing.T) {
	d := deaf{bridge{sent: make(chan openflow.PacketOut, 10)}}
	a := New(d, nil)
	for _, id := range []string{"four", "both"} {
		a.Update(drivers.Change{Set: []pipeline.Object{local(id, pipeline.BridgedFlood)}})
	}
	a.all(t.Context())
	if len(d.sent) != 1 {
		t.Errorf("tried %d times", len(d.sent))
	}
}
