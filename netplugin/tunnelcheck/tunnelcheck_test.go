package tunnelcheck

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// network is a switch and the nodes behind it; from is the number of the first question that each answers, counted
// from 1; 0: never.
type network struct {
	drivers.PacketBus
	from    map[netip.Addr]int
	asked   map[netip.Addr]int
	answers chan pipeline.Packet
	away    bool
}

func newNetwork(from map[netip.Addr]int) *network {
	return &network{from: from, asked: map[netip.Addr]int{}, answers: make(chan pipeline.Packet, 1024)}
}

func (n *network) Packets(pipeline.PacketClass) <-chan pipeline.Packet { return n.answers }

func (n *network) Send(_ context.Context, out openflow.PacketOut) error {
	if n.away {
		return fault.New(fault.Unavailable, "the switch is away")
	}
	for vtep, first := range n.from {
		number := binary.BigEndian.Uint64(out.Data[14:])
		if fmt.Sprint(pipeline.AskNode(vtep, number)) != fmt.Sprint(out) {
			continue
		}
		if n.asked[vtep]++; first > 0 && n.asked[vtep] >= first {
			n.answers <- pipeline.Packet{Class: pipeline.PacketEcho, Note: vtep.AsSlice(), Data: out.Data}
		}
	}
	return nil
}

func address(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}) }

// One answers at once, one from the third question on, one never; one that answers an earlier question does not count.
func TestWhoAnswersIsReached(t *testing.T) {
	others := map[string]netip.Addr{"prompt": address(1), "late": address(2), "silent": address(3)}
	n := newNetwork(map[netip.Addr]int{address(1): 1, address(2): tries, address(3): 0})
	c := New(n, func() map[string]netip.Addr { return others })
	n.answers <- pipeline.Packet{Class: pipeline.PacketEcho, Note: address(3).AsSlice(), Data: pipeline.AskNode(address(3), 0).Data}
	got, err := c.Ask(t.Context())
	if want := map[string]bool{"prompt": true, "late": true, "silent": false}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if n.asked[address(1)] != 1 || n.asked[address(3)] != tries {
		t.Errorf("asked %v", n.asked)
	}
}

func TestAllOfManyNodesAreAsked(t *testing.T) {
	others, from := map[string]netip.Addr{}, map[netip.Addr]int{}
	for i := range 10 * together {
		others[fmt.Sprint("node", i)] = address(i)
		from[address(i)] = 1
	}
	got, err := New(newNetwork(from), func() map[string]netip.Addr { return others }).Ask(t.Context())
	if err != nil || len(got) != len(others) {
		t.Fatalf("%d answers of %d: %v", len(got), len(others), err)
	}
	for host, answers := range got {
		if !answers {
			t.Errorf("%s does not answer", host)
		}
	}
}

func TestASwitchThatIsAwayIsAnError(t *testing.T) {
	n := newNetwork(nil)
	n.away = true
	c := New(n, func() map[string]netip.Addr { return map[string]netip.Addr{"node": address(1)} })
	if got, err := c.Ask(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v, %v", got, err)
	}
}

// Nodes that were not asked in time are not called silent.
func TestTimeEndsTheQuestions(t *testing.T) {
	others := map[string]netip.Addr{}
	for i := range 2 * together {
		others[fmt.Sprint("node", i)] = address(i)
	}
	ctx, end := context.WithCancel(t.Context())
	begun := func() map[string]netip.Addr {
		end()
		return others
	}
	if got, err := New(newNetwork(nil), begun).Ask(ctx); err != nil || len(got) > 0 {
		t.Errorf("%v, %v", got, err)
	}
}
