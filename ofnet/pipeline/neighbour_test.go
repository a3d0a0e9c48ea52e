package pipeline

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"testing"
)

// question is a frame that asks for the MAC of an address.
type question struct {
	name  string
	frame []byte
	owner mac // expected in the answer; zero: no answer
}

// ask sends the questions of one pod and checks each answer. A question without an answer is followed by one for
// the gateway, whose answer must come first.
func ask(t *testing.T, w *wire, questions []question, isAnswer func([]byte) bool, fence question, check func(*testing.T, question, []byte)) {
	for _, q := range questions {
		t.Run(q.name, func(t *testing.T) {
			w.send(q.frame)
			if q.owner == (mac{}) {
				w.send(fence.frame)
				q = fence
			}
			got := w.receive(soon, isAnswer)
			if got == nil {
				t.Fatal("no answer")
			}
			check(t, q, got)
		})
	}
}

func TestARPIsAnsweredWithTheOwnersMAC(t *testing.T) {
	c := startCluster(t, web1, db1, red1)
	c.know(web2)
	none := netip.IPv4Unspecified()

	asks := func(spa, tpa netip.Addr) []byte { return arpFrame(web1.MAC, spa, tpa) }
	fence := question{"the gateway", asks(web1.IPv4, webBlue.Gateway), AnycastMAC}
	questions := []question{
		fence,
		{"an endpoint on another node", asks(web1.IPv4, web2.IPv4), web2.MAC},
		{"a probe for an address that is taken", asks(none, web2.IPv4), web2.MAC},
		{"a probe for the gateway's address", asks(none, webBlue.Gateway), AnycastMAC},
		{"a probe for one's own address", asks(none, web1.IPv4), mac{}},
		{"a gratuitous request", asks(web1.IPv4, web1.IPv4), mac{}},
		{"an address nobody has", asks(web1.IPv4, addr("10.1.1.77")), mac{}},
		{"an endpoint of another network", asks(web1.IPv4, db1.IPv4), mac{}},
		{"the gateway of another network", asks(web1.IPv4, dbBlue.Gateway), mac{}},
		{"a question in another's name", asks(addr("10.1.1.99"), web2.IPv4), mac{}},
	}
	isAnswer := func(f []byte) bool { return bytes.Equal(f[12:14], []byte{8, 6}) && f[21] == 2 }
	ask(t, c.pod(web1).wire(), questions, isAnswer, fence, func(t *testing.T, q question, got []byte) {
		// Swapped: the asker's half becomes the target's.
		want := ethernet(web1.MAC, q.owner, 0x0806, []byte{0, 1, 8, 0, 6, 4, 0, 2},
			q.owner[:], q.frame[38:42], q.frame[22:28], q.frame[28:32])
		if !bytes.Equal(got[:42], want) {
			t.Errorf("answer:\n%swant:\n%s", hex.Dump(got[:42]), hex.Dump(want))
		}
	})

	t.Run("a tenant with the same subnet gets its own answers", func(t *testing.T) {
		red := c.pod(red1).wire()
		red.send(arpFrame(red1.MAC, red1.IPv4, web2.IPv4)) // blue only
		red.send(arpFrame(red1.MAC, red1.IPv4, webRed.Gateway))
		if got := red.receive(soon, isAnswer); got == nil || !bytes.Equal(got[28:32], webRed.Gateway.AsSlice()) {
			t.Errorf("first answer:\n%s", hex.Dump(got))
		}
	})
}

// Two networks of a tenant share a subnet: the endpoints of each take those of the other for neighbours.
func TestEndpointsOfRangesOfOneSubnetReachEachOther(t *testing.T) {
	low := webBlue
	low.First, low.Last = addr("10.1.1.1"), addr("10.1.1.99")
	there := endpoint("there", highBlue, 150, 0)
	c := &cluster{t: t, pods: map[string]*pod{}, networks: []Network{low, highBlue}}
	c.start(web1, there)
	asks := func(tpa netip.Addr) []byte { return arpFrame(web1.MAC, web1.IPv4, tpa) }
	fence := question{"the gateway", asks(low.Gateway), AnycastMAC}
	isAnswer := func(f []byte) bool { return bytes.Equal(f[12:14], []byte{8, 6}) && f[21] == 2 }
	ask(t, c.pod(web1).wire(), []question{
		{"an endpoint of the other range", asks(there.IPv4), AnycastMAC},
		{"the first address of the other range", asks(highBlue.First), AnycastMAC},
		{"the last address of one's own range", asks(low.Last), mac{}},
		{"an address of neither", asks(addr("10.1.1.200")), AnycastMAC},
		{"an address of another subnet", asks(addr("10.1.2.1")), mac{}},
	}, isAnswer, fence, func(t *testing.T, q question, got []byte) {
		if !bytes.Equal(got[6:12], q.owner[:]) || !bytes.Equal(got[28:32], q.frame[38:42]) {
			t.Errorf("answer:\n%s", hex.Dump(got))
		}
	})
	for from, to := range map[*pod]netip.Addr{c.pod(web1): there.IPv4, c.pod(there): web1.IPv4} {
		if ttl := from.pings(to, 63); ttl != 63 {
			t.Errorf("%s reaches %s with TTL %d", from.ID, to, ttl)
		}
	}
}

func TestNeighbourSolicitationsAreAnsweredWithTheOwnersMAC(t *testing.T) {
	c := startCluster(t, web1, db1)
	c.know(web2)
	none, local := netip.IPv6Unspecified(), addr("fe80::2:aff:fe01:101")

	asks := func(from, target netip.Addr) []byte { return solicitationFrame(web1.MAC, from, target, from != none) }
	fence := question{"the gateway", asks(web1.IPv6, webBlue.Gateway6), AnycastMAC}
	questions := []question{
		fence,
		{"an endpoint on another node", asks(web1.IPv6, web2.IPv6), web2.MAC},
		{"asked from a link-local address", asks(local, web2.IPv6), web2.MAC},
		{"asked without one's MAC", solicitationFrame(web1.MAC, web1.IPv6, web2.IPv6, false), web2.MAC},
		{"a probe for an address that is taken", asks(none, web2.IPv6), web2.MAC},
		{"a probe for the gateway's address", asks(none, webBlue.Gateway6), AnycastMAC},
		{"a probe for one's own address", asks(none, web1.IPv6), mac{}},
		{"an address nobody has", asks(web1.IPv6, addr("fd00:1::77")), mac{}},
		{"an endpoint of another network", asks(web1.IPv6, db1.IPv6), mac{}},
		{"a question in another's name", asks(addr("fd00:1::99"), web2.IPv6), mac{}},
	}
	isAnswer := func(f []byte) bool { return len(f) >= 78 && bytes.Equal(f[12:14], []byte{0x86, 0xdd}) && f[54] == 136 }
	ask(t, c.pod(web1).wire(), questions, isAnswer, fence, func(t *testing.T, q question, got []byte) {
		if want := advertisementFrame(q); !bytes.Equal(got, want) {
			t.Errorf("answer:\n%swant:\n%s", hex.Dump(got), hex.Dump(want))
		}
	})
}

// advertisementFrame returns the answer to a solicitation after RFC 4861.
func advertisementFrame(q question) []byte {
	asker, from, target := mac(q.frame[6:12]), netip.AddrFrom16([16]byte(q.frame[22:38])), netip.AddrFrom16([16]byte(q.frame[62:78]))
	flags := byte(0x60)
	if q.owner == AnycastMAC {
		flags |= 0x80
	}
	if from.IsUnspecified() {
		asker, from, flags = allNodesMAC, allNodes, flags&^0x40
	}
	body := append([]byte{136, 0, 0, 0, flags, 0, 0, 0}, target.AsSlice()...)
	if len(q.frame) > 78 {
		body = append(append(body, 2, 1), q.owner[:]...)
	}
	return ipv6Frame(asker, q.owner, from, target, 58, 255, 2, body)
}

// Linux must accept the switch's answer.
func TestTheKernelFindsATakenIPv6AddressTaken(t *testing.T) {
	c := startCluster(t, web1)
	c.know(web2)
	// The kernel asks once, and ignores an answer that arrives a second later: here it asks more often.
	if out, err := c.pod(web1).exec("sysctl", "-w", "net.ipv6.conf.eth0.dad_transmits=5"); err != nil {
		t.Fatal(out, err)
	}

	probes := map[netip.Addr]string{web2.IPv6: "dadfailed", addr("fd00:1::77"): "is free"}
	for a := range probes {
		if _, err := c.pod(web1).exec("ip", "addr", "add", a.String()+"/64", "dev", "eth0"); err != nil {
			t.Fatal(err)
		}
	}
	for a, want := range probes {
		verdict := func() string {
			out, err := c.pod(web1).exec("ip", "-6", "-o", "addr", "show", "dev", "eth0", "to", a.String())
			switch {
			case err != nil:
				t.Fatal(err)
			case bytes.Contains([]byte(out), []byte("dadfailed")):
				return "dadfailed"
			case bytes.Contains([]byte(out), []byte("tentative")):
				return ""
			}
			return "is free"
		}
		if got := eventually(verdict); got != want {
			t.Errorf("%s: the kernel says %q, want %q", a, got, want)
		}
	}
}
