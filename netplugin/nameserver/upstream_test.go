package nameserver

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"github.com/miekg/dns"

	"github.com/contiv/netplugin/test/testkit"
)

// liar starts a name server that sends the test's messages, and nothing else.
func liar(t testing.TB, says func(question []byte) [][]byte) netip.AddrPort {
	t.Helper()
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for buffer := make([]byte, dns.MaxMsgSize); ; {
			n, from, err := socket.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return // closed
			}
			for _, message := range says(buffer[:n]) {
				_, _ = socket.WriteToUDPAddrPort(message, from) // the client may have gone
			}
		}
	}()
	t.Cleanup(func() {
		_ = socket.Close() // ends the reader
		<-ended
	})
	return netip.MustParseAddrPort(socket.LocalAddr().String())
}

// answerTo returns the right answer to a question, in wire format.
func answerTo(t testing.TB, question []byte, address string) []byte {
	t.Helper()
	m := new(dns.Msg)
	if err := m.Unpack(question); err != nil {
		t.Fatal(err)
	}
	reply := new(dns.Msg).SetReply(m)
	reply.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: m.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.ParseIP(address)}}
	data, err := reply.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// An attacker does not know the number of the question; wrong guesses change nothing, also if they arrive first.
func TestALieBeforeTheAnswerIsNotHeard(t *testing.T) {
	server := liar(t, func(question []byte) (all [][]byte) {
		for guess := range uint16(20) {
			lie := answerTo(t, question, "192.0.2.66")
			binary.BigEndian.PutUint16(lie, binary.BigEndian.Uint16(question)+1+guess)
			all = append(all, lie)
		}
		return append(all, answerTo(t, question, "192.0.2.1"))
	})
	if got := told(askWhole(t, NewForwarder(Fixed(server)), someone, of("example.org."))); got != "NOERROR example.org. 60 IN A 192.0.2.1" {
		t.Error(got)
	}
}

// Whatever an upstream sends, the client gets a well-formed answer to its own question, no larger than it accepts.
func FuzzAnswersOfAnyContent(f *testing.F) {
	for _, m := range []*dns.Msg{question("example.org.", dns.TypeA), question("front.", dns.TypeSRV)} {
		reply := new(dns.Msg).SetReply(m)
		for _, text := range []string{"example.org. 60 IN CNAME www.example.org.", "www.example.org. 60 IN A 192.0.2.1", "example.org. 60 IN TXT \"\" x", "example.org. 60 IN SOA a. b. 1 2 3 4 5"} {
			r, err := dns.NewRR(text)
			if err != nil {
				f.Fatal(err)
			}
			reply.Answer, reply.Ns = append(reply.Answer, r), append(reply.Ns, r)
		}
		data, err := reply.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)-3])
		f.Add(append(data[:len(data):len(data)], 0xc0, 0x0c))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > maxUpstreamBytes {
			return
		}
		server := liar(t, func(question []byte) [][]byte {
			answer := append([]byte{}, data...)
			copy(answer, question[:2]) // another number would be waited on
			return [][]byte{answer}
		})
		s := &Server{Zones: NewZones(), Tenant: inBlue, Log: testkit.Quiet(), Forwarder: NewForwarder(Fixed(server))}
		packed, err := question("example.org.", dns.TypeA).Pack()
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		s.answer(t.Context(), packed, someone, new(prepared), nil, func(find func() []byte) { got = find() })
		reply := new(dns.Msg)
		if err := reply.Unpack(got); err != nil {
			t.Fatalf("%x: %x: %v", data, got, err)
		}
		if len(got) > dns.MinMsgSize || reply.Question[0].Name != "example.org." {
			t.Errorf("%x: %s", data, reply)
		}
	})
}
