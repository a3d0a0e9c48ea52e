package pipeline

import (
	"context"
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// Whatever one pod queries, as fast as it can, ovs-vswitchd gets no more queries than the limit allows, and
// answers other pods.
func TestAPodThatFloodsQuestionsIsLimitedAndOthersAreAnswered(t *testing.T) {
	c := startCluster(t, web1, db1)
	c.know(web2)
	flooder, other := c.pod(web1), c.pod(db1)
	n := flooder.node
	for _, kind := range []struct {
		name   string
		flood  []byte
		polite []byte
		answer func([]byte) bool
	}{
		{
			"ARP", arpFrame(web1.MAC, web1.IPv4, web2.IPv4), arpFrame(db1.MAC, db1.IPv4, dbBlue.Gateway),
			func(f []byte) bool { return f[12] == 8 && f[13] == 6 && f[21] == 2 },
		},
		{
			"neighbour discovery", solicitationFrame(web1.MAC, web1.IPv6, web2.IPv6, true), solicitationFrame(db1.MAC, db1.IPv6, dbBlue.Gateway6, true),
			func(f []byte) bool { return len(f) > 54 && f[12] == 0x86 && f[54] == 136 },
		},
		{
			"ping", echoFrame(AnycastMAC, web1.MAC, webBlue.Gateway, web1.IPv4), echoFrame(AnycastMAC, db1.MAC, dbBlue.Gateway, db1.IPv4),
			func(f []byte) bool { return f[12] == 8 && f[13] == 0 && f[23] == 1 && f[34] == 0 },
		},
	} {
		t.Run(kind.name, func(t *testing.T) {
			began, before := time.Now(), n.meter(t, flooder.port) // the time includes both readings of the meter
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			sent, wire := make(chan uint64, 1), flooder.wire()
			go func() {
				var count uint64
				for ; ctx.Err() == nil; count++ {
					_, _ = unix.Write(wire.fd, kind.flood) // a full queue is intended
				}
				sent <- count
			}()
			polite := other.wire()
			for range 10 {
				polite.send(kind.polite)
				if polite.receive(soon, kind.answer) == nil {
					t.Error("another pod is not answered")
				}
			}
			// Long enough to see that there is a limit.
			for flooded := time.Now(); n.meter(t, flooder.port).Packets < before.Packets+20_000 && time.Since(flooded) < soon; {
				<-time.After(20 * time.Millisecond)
			}
			stop()
			count := <-sent
			after := n.meter(t, flooder.port)
			seconds := uint64(time.Since(began)/time.Second) + 1
			asked, refused := after.Packets-before.Packets, after.Bands[0].Packets-before.Bands[0].Packets
			t.Logf("%d sent, %d at the meter, %d refused", count, asked, refused)
			if limit := answersAtOnce + answersPerSecond*seconds; asked-refused > limit {
				t.Errorf("%d questions in %d s passed the meter, want at most %d", asked-refused, seconds, limit)
			}
			if refused == 0 {
				t.Errorf("none of %d questions was refused", asked)
			}
		})
	}
	// Refused queries are dropped in the datapath.
	if flows := n.Appctl("dpctl/dump-flows"); !strings.Contains(flows, "meter(") || !strings.Contains(flows, "recirc(") {
		t.Errorf("the datapath does not meter before it asks ovs-vswitchd:\n%s", flows)
	}
}

// Solicitations for ever new neighbours are one flow in the datapath until they have passed the meter, in every
// kind of network: the number of queries to ovs-vswitchd does not depend on a pod's choices.
func TestSolicitationsForEverOtherNeighboursAreLimitedInTheDatapath(t *testing.T) {
	const targets = 4 * answersAtOnce
	c := startBridged(t, hub1, hub2)
	for _, e := range []Endpoint{web1, lan1, hub1} {
		p := c.pod(e)
		w, raw := p.wire(), e.IPv6.As16()
		for i := range targets {
			binary.BigEndian.PutUint16(raw[8:], uint16(i)) // also outside of the known part
			binary.BigEndian.PutUint16(raw[14:], uint16(i))
			w.send(solicitationFrame(e.MAC, e.IPv6, netip.AddrFrom16(raw), true))
		}
		w.send(udpFrame(AnycastMAC, e.MAC, e.IPv6, e.IPv6, "fence")) // to itself only
		before, behind := 0, 0
		for line := range strings.Lines(p.node.Appctl("dpctl/dump-flows", "-m")) {
			switch {
			case !strings.Contains(line, "icmpv6(type=135") || !strings.Contains(line, "src="+e.IPv6.String()):
			case strings.Contains(line, "recirc_id(0)"):
				before++
			default:
				behind++
			}
		}
		t.Logf("%s: %d flows, and %d behind the meter", e.ID, before, behind)
		if before > 1 {
			t.Errorf("%s: solicitations have %d flows in the datapath, want 1", e.ID, before)
		}
	}
}

// meter returns the counters of a meter.
func (n *node) meter(t *testing.T, id uint32) (found openflow.MeterStats) {
	t.Helper()
	n.connected(t, func(conn *openflow.Conn) error {
		all, err := conn.MeterStats(t.Context())
		for _, m := range all {
			if m.ID == id {
				found = m
			}
		}
		return err
	})
	if len(found.Bands) != 1 {
		t.Fatalf("there is no meter %d", id)
	}
	return found
}
