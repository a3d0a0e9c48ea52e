package border

import (
	"context"
	"encoding/binary"
	"io"
	"net"
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
	"github.com/contiv/netplugin/test/testkit"
)

// The node and its neighbour in these tests.
var nodeAddress, neighbourAddress = addr("127.0.0.2"), addr("127.0.0.3")

const neighbourAS = 65002

// neighbour is a router outside that says each hundredth of a second that it is there.
type neighbour struct{ conn *net.TCPConn }

// meet begins a session with the node.
func meet(t *testing.T, port uint16) *neighbour {
	t.Helper()
	n := &neighbour{}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := testkit.Poll(ctx, func() error { return n.connect(ctx, port) }); err != nil {
		t.Fatal(err)
	}
	speaks := make(chan struct{})
	go func() {
		defer close(speaks)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for n.say(wire.NewBGPKeepAliveMessage()) == nil {
			<-tick.C
		}
	}()
	t.Cleanup(func() {
		_ = n.conn.Close()
		<-speaks
	})
	return n
}

func (n *neighbour) connect(ctx context.Context, port uint16) error {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: neighbourAddress.AsSlice()}}
	conn, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(nodeAddress, port).String())
	if err != nil {
		return err
	}
	n.conn = conn.(*net.TCPConn)
	open, err := wire.NewBGPOpenMessage(neighbourAS, 90, neighbourAddress, nil)
	if err == nil {
		err = n.say(open)
	}
	for _, want := range []uint8{wire.BGP_MSG_OPEN, wire.BGP_MSG_KEEPALIVE} {
		var got uint8
		if err == nil {
			got, err = n.hear(time.Second)
		}
		if err == nil && got != want {
			err = io.ErrUnexpectedEOF
		}
	}
	if err != nil {
		_ = n.conn.Close()
	}
	return err
}

func (n *neighbour) say(m *wire.BGPMessage) error {
	data, err := m.Serialize()
	if err == nil {
		_, err = n.conn.Write(data)
	}
	return err
}

// hear returns the type of the next message.
func (n *neighbour) hear(within time.Duration) (uint8, error) {
	if err := n.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return 0, err
	}
	header := make([]byte, wire.BGP_HEADER_LENGTH)
	if _, err := io.ReadFull(n.conn, header); err != nil {
		return 0, err
	}
	const lengthAt, typeAt = 16, 18
	_, err := io.CopyN(io.Discard, n.conn, int64(binary.BigEndian.Uint16(header[lengthAt:]))-wire.BGP_HEADER_LENGTH)
	return header[typeAt], err
}

// hearsTheEnd tells whether it knows by now that the session is over: by a message, or, as it speaks on, by a connection
// that is reset. What was said is there at once; the time is less than the node takes at least to say it to who speaks on.
func (n *neighbour) hearsTheEnd() bool {
	for {
		what, err := n.hear(500 * time.Millisecond)
		if err != nil || what == wire.BGP_MSG_NOTIFICATION {
			return !os.IsTimeout(err)
		}
	}
}

// cutting is a driver that notes what the neighbour has heard when the interface goes, and makes no other one.
type cutting struct {
	portDriver
	neighbour *neighbour
	heard     []bool
}

func (d *cutting) RemovePort(ctx context.Context, id string) error {
	d.heard = append(d.heard, d.neighbour.hearsTheEnd())
	return d.portDriver.RemovePort(ctx, id)
}

func (*cutting) AddPort(context.Context, pipeline.Encap, string, int) (drivers.Port, error) {
	return drivers.Port{}, io.ErrNoProgress
}

// Without the interface nothing reaches the neighbour: it would keep our routes for its hold time.
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
			border.settle(t.Context())
			if len(d.heard) != 1 || !d.heard[0] {
				t.Errorf("the interface was removed, and the neighbour had heard of the end of the session: %v", d.heard)
			}
		})
	}
}
