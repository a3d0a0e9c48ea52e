package pipeline

import (
	"context"
	"net/netip"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/testkit"
)

// A probe to a node is answered by its switch, in tunnels over IPv4 and IPv6; a probe to a node that does not
// exist has no answer.
func TestANodeAnswersWhoAsksWhetherPacketsPass(t *testing.T) {
	t.Run("IPv4", func(t *testing.T) { asksEachOther(t, web1, web2, vtep3) })
	t.Run("IPv6", func(t *testing.T) {
		a, b := web1, web2
		a.VTEP, b.VTEP = addr("fd99::1"), addr("fd99::2")
		asksEachOther(t, a, b, addr("fd99::3"))
	})
}

func asksEachOther(t *testing.T, a, b Endpoint, nobody netip.Addr) {
	c := startCluster(t, a, b)
	for _, pair := range [][2]netip.Addr{{a.VTEP, b.VTEP}, {b.VTEP, a.VTEP}} {
		got := c.nodeOf(pair[0]).asks(t, nobody, pair[1])
		if vtep, number, ok := got.AnsweredBy(); !ok || vtep != pair[1] || number != 2 {
			t.Errorf("%s asks %s, and question %d is answered by %s, %v", pair[0], pair[1], number, vtep, ok)
		}
	}
}

// asks sends a probe to each, with the numbers 1, 2 and so on, and returns the first answer.
func (n *node) asks(t *testing.T, vteps ...netip.Addr) (answer Packet) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	answers := make(chan Packet, len(vteps))
	conn, err := openflow.Dial(ctx, n.Bridge(bridge), openflow.Options{OnEvent: func(m openflow.Message) {
		if in, ok := m.(openflow.PacketIn); ok {
			if p, ok := PacketOf(in); ok {
				select {
				case answers <- p:
				default: // one is enough
				}
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Send(ctx, openflow.SetAsync{PacketIn: 1 << openflow.ReasonAction}); err != nil {
		t.Fatal(err)
	}
	err = testkit.Until(ctx, "an answer", func() bool {
		for i, vtep := range vteps {
			if err := conn.PacketOut(ctx, AskNode(vtep, uint64(i+1))); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case answer = <-answers:
			return true
		default:
			return false
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return answer
}
