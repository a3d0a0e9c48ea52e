package nameserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/contiv/netplugin/test/testkit"
)

// start serves the example on a port of this machine until the end of the test; tenant maps clients to their
// tenants.
func start(t testing.TB, zones *Zones, forwarder *Forwarder, tenant func(netip.Addr) (string, bool)) (*Server, string) {
	t.Helper()
	packets, streams := sockets(t)
	s := &Server{Zones: zones, Forwarder: forwarder, Tenant: tenant, Log: testkit.Quiet()}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx, packets, streams) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s, packets.LocalAddr().String()
}

// sockets are one of each kind with the same port of this machine.
func sockets(t testing.TB) (*net.UDPConn, net.Listener) {
	t.Helper()
	for range 100 {
		packets, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		streams, err := net.Listen("tcp", packets.LocalAddr().String())
		if err == nil {
			return packets, streams
		}
		if err := packets.Close(); err != nil { // the port is in use over TCP
			t.Fatal(err)
		}
	}
	t.Fatal("no port is free for both")
	return nil, nil
}

func inBlue(netip.Addr) (string, bool) { return "blue", true }

// exchangeWith asks a server and expects an answer.
func exchangeWith(t testing.TB, network, server string, m *dns.Msg) *dns.Msg {
	t.Helper()
	client := dns.Client{Net: network, Timeout: time.Minute, UDPSize: 65535}
	reply, _, err := client.Exchange(m, server)
	if err != nil {
		t.Fatalf("%s %s: %v", network, m.Question[0].Name, err)
	}
	return reply
}

func question(name string, kind uint16) *dns.Msg { return new(dns.Msg).SetQuestion(name, kind) }

func TestQuestionsAreAnsweredOverBothTransports(t *testing.T) {
	s, server := start(t, exampleZones(t), nil, inBlue)
	for _, network := range []string{"udp", "tcp"} {
		reply := exchangeWith(t, network, server, question("Front.", dns.TypeA))
		if len(reply.Answer) != 2 || !reply.Authoritative || reply.RecursionAvailable || reply.Answer[0].Header().Name != "Front." {
			t.Errorf("%s: %s", network, reply)
		}
	}
	if got := s.Stats(); got.Answered != 2 {
		t.Errorf("%+v", got)
	}
}

// answersOn asks on a connection and expects an answer at once.
func answersOn(conn net.Conn) error {
	c := &dns.Conn{Conn: conn}
	if err := errors.Join(conn.SetDeadline(time.Now().Add(time.Minute)), c.WriteMsg(question("front.", dns.TypeA))); err != nil {
		return err
	}
	_, err := c.ReadMsg()
	return err
}

func TestAnAskerTakesNoConnectionsOfOthers(t *testing.T) {
	_, server := start(t, exampleZones(t), nil, inBlue)
	var open []net.Conn
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", server)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() }) // may be closed
		return conn
	}
	for range maxOfAsker {
		open = append(open, dial())
		if err := answersOn(open[len(open)-1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := answersOn(dial()); err == nil {
		t.Errorf("connection %d of one asker is served", maxOfAsker+1)
	}
	other := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	conn, err := other.Dial("tcp", server)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := answersOn(conn); err != nil {
		t.Errorf("another asker: %v", err)
	}
	if err := open[0].Close(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, "there is room for another one", func() bool { return answersOn(dial()) == nil })
}

// However many clients a tenant has.
func TestATenantTakesNoConnectionsOfOthers(t *testing.T) {
	_, server := start(t, exampleZones(t), nil, func(a netip.Addr) (string, bool) {
		switch a.As4()[2] {
		case 1:
			return "blue", true
		case 2:
			return "red", true
		}
		return "", false
	})
	dial := func(from net.IP) net.Conn {
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}).Dial("tcp", server)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() }) // may be closed
		return conn
	}
	for asker := range maxConnections / maxOfAsker {
		for range maxOfAsker {
			dial(net.IPv4(127, 0, 1, byte(asker)))
		}
	}
	if err := answersOn(dial(net.IPv4(127, 0, 2, 1))); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	stranger := dial(net.IPv4(127, 0, 3, 1))
	if err := stranger.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if n, err := stranger.Read(make([]byte, 1)); err == nil || n != 0 || strings.Contains(err.Error(), "timeout") {
		t.Errorf("a stranger reads %d bytes, %v; want the end of the connection", n, err)
	}
}

func TestAnAnswerFitsInWhatTheAskerTakes(t *testing.T) {
	z := exampleZones(t)
	for i := range 200 {
		z.SetEndpoint(Endpoint{ID: fmt.Sprint("x", i), Tenant: "blue", Group: "many", IPv4: addr(fmt.Sprint("10.1.1.", i))})
	}
	_, server := start(t, z, nil, inBlue)
	for _, c := range []struct {
		network string
		offers  uint16 // bytes; 0: without EDNS
		most    int
		whole   bool
	}{{"udp", 0, 512, false}, {"udp", 100, 512, false}, {"udp", 800, 800, false}, {"udp", 65535, MaxUDP, true}, {"tcp", 0, 65535, true}} {
		m := question("many.", dns.TypeA)
		if c.offers > 0 {
			m.SetEdns0(c.offers, true)
		}
		reply := exchangeWith(t, c.network, server, m)
		reply.Compress = true
		if reply.Len() > c.most || reply.Truncated == c.whole || c.whole && len(reply.Answer) != maxAddresses {
			t.Errorf("%+v: %d bytes, %d records, truncated %v", c, reply.Len(), len(reply.Answer), reply.Truncated)
		}
		if opt := reply.IsEdns0(); (opt != nil) != (c.offers > 0) || opt != nil && (opt.UDPSize() != MaxUDP || !opt.Do()) {
			t.Errorf("%+v: %v", c, opt)
		}
	}
}

// Without an answer the client would wait, and ask again.
func TestAnAnswerThatCannotBeExpressedIsAFailure(t *testing.T) {
	z := exampleZones(t)
	long := strings.TrimSuffix(strings.Repeat(strings.Repeat("a", 60)+".", 4), ".") // with the tenant's domain too long
	z.SetService(Service{ID: "long:blue", Tenant: "blue", Name: long, Address: addr("10.1.2.201"), Ports: []Port{{"tcp", 80, 80}}})
	_, server := start(t, z, nil, inBlue)
	for _, network := range []string{"udp", "tcp"} {
		if reply := exchangeWith(t, network, server, question("_tcp."+long+".", dns.TypeSRV)); reply.Rcode != dns.RcodeServerFailure {
			t.Errorf("%s: %s", network, reply)
		}
	}
}

func TestWhatIsNotServedIsRefused(t *testing.T) {
	s, server := start(t, exampleZones(t), nil, inBlue)
	with := func(m *dns.Msg, change func(*dns.Msg)) *dns.Msg {
		change(m)
		return m
	}
	for name, c := range map[string]struct {
		m    *dns.Msg
		want int
	}{
		"a transfer":         {question("blue.contiv.internal.", dns.TypeAXFR), dns.RcodeRefused},
		"another class":      {with(question("version.bind.", dns.TypeTXT), func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }), dns.RcodeRefused},
		"others, by nobody":  {question("example.org.", dns.TypeA), dns.RcodeRefused},
		"an update":          {with(question("front.", dns.TypeSOA), func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }), dns.RcodeNotImplemented},
		"two questions":      {with(question("front.", dns.TypeA), func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }), dns.RcodeFormatError},
		"an unknown version": {with(question("front.", dns.TypeA), func(m *dns.Msg) { m.SetEdns0(1232, false); m.IsEdns0().SetVersion(1) }), dns.RcodeBadVers},
	} {
		if reply := exchangeWith(t, "udp", server, c.m); reply.Rcode != c.want || len(reply.Answer) > 0 {
			t.Errorf("%s: %s", name, reply)
		}
	}
	if got := s.Stats(); got.Refused != 6 {
		t.Errorf("%+v", got)
	}
}

// Unknown clients and messages that are no questions get no answer at all, so that the server cannot be made to
// send to others.
func TestStrangersAndAnswersGetSilence(t *testing.T) {
	s, server := start(t, exampleZones(t), nil, func(netip.Addr) (string, bool) { return "", false })
	conn, err := net.Dial("udp", server)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	response := question("front.", dns.TypeA)
	response.Response = true
	for _, m := range []*dns.Msg{response, question("front.", dns.TypeA)} {
		data, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, 5*time.Second, "the question is counted", func() bool { return s.Stats().Strangers > 0 })
	if err := conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 512)); err == nil {
		t.Errorf("%d bytes for a stranger", n)
	}
	if got := s.Stats(); got.Strangers != 1 {
		t.Errorf("%+v", got)
	}
}

// A connection without questions is closed, and blocks no others meanwhile.
func TestASilentConnectionEnds(t *testing.T) {
	t.Parallel()
	_, server := start(t, exampleZones(t), nil, inBlue)
	conn, err := net.Dial("tcp", server)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	exchangeWith(t, "tcp", server, question("front.", dns.TypeA))
	if err := conn.SetReadDeadline(time.Now().Add(2*questionTime + 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); err == nil || n != 0 || strings.Contains(err.Error(), "timeout") {
		t.Errorf("%d bytes, %v; want the end of the connection", n, err)
	}
}

// A client that asks several questions at once on a connection gets all answers, in their order.
func TestQuestionsOnAConnectionNeedNotWaitForAnswers(t *testing.T) {
	_, server := start(t, exampleZones(t), nil, inBlue)
	conn, err := dns.Dial("tcp", server)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	const many = 100
	for i := range many {
		m := question("fRoNt.", dns.TypeA)
		m.Id = uint16(i)
		if err := conn.WriteMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	for i := range many {
		reply, err := conn.ReadMsg()
		if err != nil || reply.Id != uint16(i) || len(reply.Answer) != 2 || reply.Question[0].Name != "fRoNt." {
			t.Fatalf("answer %d: %v, %v", i, reply, err)
		}
	}
}
