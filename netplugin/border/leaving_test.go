package border

import (
	"context"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	wire "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/netplugin/bgp"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/bgppeer"
	"github.com/contiv/netplugin/test/testkit"
)

// The node and its neighbour in these tests.
var nodeAddress, neighbourAddress = addr("127.0.0.2"), addr("127.0.0.3")

const neighbourAS = 65002

// meet opens a session of a neighbour that sends a keepalive each hundredth of a second.
func meet(t *testing.T, port uint16) *bgppeer.Peer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var neighbour *bgppeer.Peer
	err := testkit.Poll(ctx, func() (err error) {
		neighbour, err = bgppeer.Meet(ctx, neighbourAddress, neighbourAS, netip.AddrPortFrom(nodeAddress, port))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	speaks := make(chan struct{})
	go func() {
		defer close(speaks)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for neighbour.Say(wire.NewBGPKeepAliveMessage()) == nil {
			<-tick.C
		}
	}()
	t.Cleanup(func() {
		_ = neighbour.Close()
		<-speaks
	})
	return neighbour
}

// hearsTheEnd reports whether a neighbour knows by now that the session is over: by a message, or, as it goes on
// sending, by a reset of the connection. A message sent before has arrived; the timeout is shorter than the node
// takes to answer a neighbour that goes on sending.
func hearsTheEnd(neighbour *bgppeer.Peer) bool {
	for {
		what, err := neighbour.Hear(500 * time.Millisecond)
		if err != nil || what == wire.BGP_MSG_NOTIFICATION {
			return !os.IsTimeout(err)
		}
	}
}

// cutting is a driver that records whether the neighbour knows of the end when the interface is removed, and makes
// no other one.
type cutting struct {
	portDriver
	neighbour *bgppeer.Peer
	heard     []bool
}

func (d *cutting) RemovePort(ctx context.Context, id string) error {
	d.heard = append(d.heard, hearsTheEnd(d.neighbour))
	return d.portDriver.RemovePort(ctx, id)
}

func (*cutting) AddPort(context.Context, pipeline.Encap, string, int) (drivers.Port, error) {
	return drivers.Port{}, io.ErrNoProgress
}

// Without the interface no message reaches the neighbour: it would keep our routes for its hold time.
func TestTheInterfaceStaysUntilNeighboursHaveHeardThatTheSessionEnds(t *testing.T) {
	port := netip.MustParseAddrPort(testkit.FreeAddress()).Port()
	for name, wanted := range map[string]*agent.BGP{
		"no router any more": nil,
		"another address":    {AS: 65001, Link: prefix("127.0.0.4/8")},
	} {
		t.Run(name, func(t *testing.T) {
			d := &cutting{}
			border := New(Config{Driver: d, StateFile: filepath.Join(t.TempDir(), "routes.json"), Speaker: bgp.Config{Port: port}})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- border.speaker.Run(ctx) }()
			t.Cleanup(func() {
				cancel()
				<-ended
			})
			router := &agent.BGP{AS: 65001, Link: netip.PrefixFrom(nodeAddress, 8), Neighbours: []bgp.Neighbour{{Address: neighbourAddress, AS: neighbourAS}}}
			border.Configure(router)
			border.Update(drivers.Change{Replace: true})
			border.speaker.Announce([]netip.Prefix{prefix("10.1.1.1/32")}, nil)
			border.open(router)
			d.neighbour = meet(t, port)
			testkit.Eventually(t, 30*time.Second, "there is a session", func() bool { return border.speaker.Counts().Sessions == 1 })

			border.Configure(wanted)
			border.reconcile(t.Context())
			if len(d.heard) != 1 || !d.heard[0] {
				t.Errorf("the interface was removed, and the neighbour had heard of the end of the session: %v", d.heard)
			}
		})
	}
}
